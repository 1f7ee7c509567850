/*
 * What all the boot code here shares: say it on the first serial port, read a sector, end.
 * Real mode, %ds = 0. Macros only; the program says where its `routines' lie.
 */

/* The rest of the line that is under way, a text of the program itself. */
        .macro  say text
        call    say_inline
        .asciz  "\text"
        .endm

        .macro  routines
say_inline:                             /* the text stands behind the call */
        popw    %bp
1:      movb    (%bp), %al
        incw    %bp
        testb   %al, %al
        jz      2f
        call    put
        jmp     1b
2:      jmpw    *%bp

say_hex:                                /* %ebx, 8 digits, a blank before */
        movb    $' ', %al
        call    put
        movw    $8, %cx
1:      roll    $4, %ebx
        movb    %bl, %al
        andb    $15, %al
        cmpb    $10, %al
        sbbb    $0x69, %al              /* to ASCII, as DAS makes it */
        das
        call    put
        loop    1b
        ret

put:                                    /* %al */
        pushw   %dx
        movw    $0x3f8, %dx
        outb    %al, %dx
        popw    %dx
        ret

read:                                   /* %cx sectors from LBA %eax to %es:0, drive %dl */
        pushl   $0
        pushl   %eax
        pushw   %es
        pushw   $0
        pushw   %cx
        pushw   $16
        movw    %sp, %si
        movb    $0x42, %ah
        int     $0x13
        jc      failed
        addw    $16, %sp
        ret

failed: say     "read error\n"
finish: movw    $0x501, %dx             /* QEMU's isa-debug-exit: it ends with status 1 */
        xorb    %al, %al
        outb    %al, %dx
1:      hlt
        jmp     1b
        .endm

/* Segments and stack; then the sector moves itself to 0x600, where it is linked to run. */
        .macro  move_away
        cli
        xorw    %ax, %ax
        movw    %ax, %ds
        movw    %ax, %es
        movw    %ax, %ss
        movw    $0x7c00, %sp
        cld
        movw    $0x7c00, %si
        movw    $0x600, %di
        movw    $256, %cx
        rep movsw
        ljmp    $0, $moved
moved:
        .endm
