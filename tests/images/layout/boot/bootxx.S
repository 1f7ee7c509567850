/*
 * In place of NetBSD's bootxx_ffsv1, 15 sectors: says what the label in sector 1 says, and
 * whether the rest of itself and the file system that begins here are on the disk.
 */
#include "serial.h"
#define LABEL   0x7e00
#define TAIL    (0x7c00 + 15 * 512 - 4)
        .code16
        .globl  _start
_start: xorw    %ax, %ax
        movw    %ax, %ds
        movl    8(%si), %edi            /* begin of the slice, from its entry in the table */
        movl    %edi, %eax
        incl    %eax
        movw    $14, %cx
        movw    $0x7e0, %bx
        movw    %bx, %es
        call    read
        say     "label:"
        movl    LABEL, %ebx
        call    say_hex
        movl    LABEL + 132, %ebx
        call    say_hex
        movl    LABEL + 148 + 4, %ebx   /* where a begins */
        call    say_hex
        movzbl  LABEL + 148 + 12, %ebx  /* and its type */
        call    say_hex
        say     "\n"
        jmp     behind

        routines
        .org    510
        .word   0xaa55

        .org    1024
        nop
        nop
        nop
        nop
        .long   0x7886b6d1
        .long   24                      /* length of the parameters */
        .long   0, 5, 0, 9600, 0        /* flags, timeout, consdev, conspeed */
behind: say     "bootxx: timeout"
        movl    0x7c00 + 1024 + 16, %ebx
        call    say_hex
        say     " consdev"
        movl    0x7c00 + 1024 + 20, %ebx
        call    say_hex
        say     " conspeed"
        movl    0x7c00 + 1024 + 24, %ebx
        call    say_hex
        say     " tail"
        movl    TAIL, %ebx
        call    say_hex
        say     "\nroot:"
        movl    %edi, %eax              /* superblock at 8 KiB, its magic at 1372 of that */
        addl    $18, %eax
        movw    $1, %cx
        movw    $0xa00, %bx
        movw    %bx, %es
        call    read
        movl    0xa000 + 1372 - 1024, %ebx
        call    say_hex
        say     "\n"
        jmp     finish
        .org    15 * 512 - 4
        .long   0x1a57b10c
