/*
 * In place of FreeBSD's pmbr: finds the partition of type freebsd-boot in the GPT, loads
 * the whole of it, a sector at a time, to 0x7c00 and runs it. Linked at 0x600.
 */
#include "serial.h"
#define HEADER  0x1000
#define ENTRIES 0x2000                  /* 32 sectors */
        .code16
        .globl  _start
_start: move_away
        movw    $HEADER / 16, %bx
        movw    %bx, %es
        movl    $1, %eax
        movw    $1, %cx
        call    read
        cmpl    $0x20494645, HEADER     /* "EFI " */
        jne     none
        movw    $ENTRIES / 16, %bx
        movw    %bx, %es
        movl    HEADER + 72, %eax
        movw    $32, %cx
        call    read
        xorw    %ax, %ax
        movw    %ax, %es
        movw    $ENTRIES, %bx
next:   movw    %bx, %si
        movw    $type, %di
        movw    $16, %cx
        repe cmpsb
        je      found
        addw    HEADER + 84, %bx
        decl    HEADER + 80
        jnz     next
none:   say     "pmbr: nothing to boot\n"
        jmp     finish

found:  movl    40(%bx), %edi           /* last sector */
        movl    32(%bx), %ebx           /* next sector */
        say     "pmbr: from"
        pushl   %ebx
        call    say_hex
        movl    %edi, %ebx
        call    say_hex
        say     "\n"
        popl    %ebx
        movw    $0x7c0, %ax
        movw    %ax, %es
load:   movl    %ebx, %eax
        movw    $1, %cx
        call    read
        movw    %es, %ax
        addw    $32, %ax
        movw    %ax, %es
        incl    %ebx
        cmpl    %edi, %ebx
        jbe     load
        ljmp    $0, $0x7c00

        routines
type:   .long   0x83bd6b9d              /* freebsd-boot */
        .word   0x7f41, 0x11dc
        .byte   0xbe, 0x0b, 0x00, 0x15, 0x60, 0xb8, 0x4f, 0x0f
        .org    440
        .fill   6, 1, 0xff              /* from here on nothing must be taken */
        .fill   64, 1, 0xff
        .word   0xaa55
