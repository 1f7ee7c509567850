/*
 * In place of FreeBSD's gptboot: says the XOR of all words of the SIZE bytes that should
 * be in memory from 0x7c00 on. Only what the test appends makes it that long.
 */
#include "serial.h"
        .code16
        .globl  _start
_start: xorw    %ax, %ax
        movw    %ax, %ds
        say     "gptboot:"
        xorl    %ebx, %ebx
        movl    $SIZE / 16, %ecx
        movw    $0x7c0, %ax
1:      movw    %ax, %es
        xorl    %es:0, %ebx
        xorl    %es:4, %ebx
        xorl    %es:8, %ebx
        xorl    %es:12, %ebx
        incw    %ax
        decl    %ecx
        jnz     1b
        call    say_hex
        say     "\n"
        jmp     finish
        routines
