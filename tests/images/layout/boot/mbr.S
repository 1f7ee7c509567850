/*
 * In place of NetBSD's mbr: finds the active slice in the table at byte 446 and runs its
 * first sector, %si at the slice's entry, %dl the drive. Linked at 0x600.
 */
#include "serial.h"
        .code16
        .globl  _start
_start: move_away
        movw    $0x600 + 446, %di
        movw    $4, %cx
next:   cmpb    $0x80, (%di)
        je      found
        addw    $16, %di
        loop    next
        say     "mbr: no active slice\n"
        jmp     finish

found:  say     "mbr: type"
        movzbl  4(%di), %ebx
        call    say_hex
        say     " signature"
        movl    0x600 + 440, %ebx
        call    say_hex
        say     "\n"
        movl    8(%di), %eax
        movw    $1, %cx
        movw    $0x7c0, %bx
        movw    %bx, %es
        call    read
        movw    %di, %si
        ljmp    $0, $0x7c00

        routines
        .org    440
        .long   0x5109a7ed              /* what the layout must keep */
        .word   0xb5e1
        .org    510
        .word   0xaa55
