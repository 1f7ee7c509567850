/*
 * The proof guest: a disk of 2 KiB that shows whether an accelerator runs guests.
 *
 * The BIOS loads its first sector; it loads the rest and then does what every
 * kernel does in its first instructions: real mode, protected mode, long mode
 * with paging, CPUID, RDMSR, a page fault that is handled, CMPXCHG16B (which a
 * KVM that emulates was seen to miss), timer interrupts, and the other vCPUs
 * brought up by INIT and SIPI. Each step says so on the first serial port, so
 * that the last line shows where a broken accelerator stopped. After the marker
 * it writes to QEMU's isa-debug-exit port (0x501); without that device it
 * stays, halted, and powers off at the ACPI power button.
 *
 * Build (see tests/hypervisor/test_proof_guest.py):
 *   gcc -c -o proof.o proof.S
 *   ld -Ttext=0x7c00 --oformat=binary -o proof.bin proof.o
 *
 * Memory: 0x7c00 this program (what the other vCPUs start at falls on 0x8000), 0x6000 IDT,
 * 0x10000 page tables (4 GiB mapped to itself by 2 MiB pages), stack below 0x7000.
 */

#define COM1            0x3f8
#define DEBUG_EXIT      0x501
#define FW_CFG_SELECT   0x510
#define FW_CFG_DATA     0x511
#define FW_CFG_NB_CPUS  5
#define PM1_STATUS      0x600           /* where SeaBIOS puts the ACPI registers */
#define PM1_ENABLE      0x602
#define PM1_CONTROL     0x604
#define POWER_BUTTON    0x100
#define SLEEP_S5        0x2000

#define IDT             0x6000
#define IDT_ENTRIES     0x21            /* the exceptions, and the timer at 0x20 */
#define STACK           0x7000
#define PML4            0x10000
#define PDPT            0x11000
#define PD              0x12000         /* four pages */
#define UNMAPPED        0x100000000     /* first address above the mapped 4 GiB */

#define LAPIC_ICR_LOW   0xfee00300
#define INIT_OTHERS     0x000c4500
#define SIPI_OTHERS     0x000c4608      /* start at page 8, that is 0x8000 */

#define MSR_EFER        0xc0000080
#define EFER_LME        0x100
#define EFER_LMA        0x400

#define CODE32          0x08
#define DATA            0x10
#define CODE64          0x18

        .section .text
        .globl  _start
        .code16
_start:
        cli
        xorw    %ax, %ax
        movw    %ax, %ds
        movw    %ax, %es
        movw    %ax, %ss
        movw    $STACK, %sp
        ljmp    $0, $1f
1:      movw    $0x4200, %ax            /* INT 13h: read by block address, drive in DL */
        movw    $disk_packet, %si
        int     $0x13
        jc      disk_failed
        movw    $msg_real, %si
        call    print16
        inb     $0x92, %al              /* A20 */
        orb     $2, %al
        andb    $0xfe, %al
        outb    %al, $0x92
        lgdtl   gdt_register
        movl    %cr0, %eax
        orb     $1, %al
        movl    %eax, %cr0
        ljmpl   $CODE32, $boot32

disk_failed:
        movw    $msg_disk, %si
        call    print16
2:      hlt
        jmp     2b

print16:                                /* SI: text ended by 0 */
        movw    $COM1 + 5, %dx
3:      inb     %dx, %al
        testb   $0x20, %al
        jz      3b
        lodsb
        testb   %al, %al
        jz      4f
        movw    $COM1, %dx
        outb    %al, %dx
        jmp     print16
4:      ret

        .balign 8
disk_packet:
        .byte   16, 0
        .word   3                       /* sectors 1 to 3 */
        .word   0x7e00, 0               /* to 0:7e00 */
        .quad   1

        .balign 8
gdt:    .quad   0
        .quad   0x00cf9a000000ffff      /* CODE32 */
        .quad   0x00cf92000000ffff      /* DATA */
        .quad   0x00af9a000000ffff      /* CODE64 */
gdt_register:
        .word   . - gdt - 1
        .long   gdt

msg_real: .asciz "\r\nlabctl proof: real mode\r\n"
msg_disk: .asciz "labctl proof: FAILED: disk\r\n"

/* ---- protected mode, paging off ---- */
        .code32
boot32:
        movw    $DATA, %ax
        movw    %ax, %ds
        movw    %ax, %es
        movw    %ax, %ss
        movl    $PML4, %edi             /* clear PML4 and PDPT */
        xorl    %eax, %eax
        movl    $2048, %ecx
        rep stosl
        movl    $PDPT + 3, PML4
        movl    $PD + 3, %eax
        movl    $PDPT, %edi
        movl    $4, %ecx
1:      movl    %eax, (%edi)
        addl    $4096, %eax
        addl    $8, %edi
        loop    1b
        movl    $0x83, %eax             /* present, writable, 2 MiB */
        movl    $PD, %edi
        movl    $2048, %ecx
2:      movl    %eax, (%edi)
        movl    $0, 4(%edi)
        addl    $0x200000, %eax
        addl    $8, %edi
        loop    2b
        movl    $boot64, %ebx

enter_long:                             /* EBX: where to go on in long mode */
        movl    $0x20, %eax             /* PAE */
        movl    %eax, %cr4
        movl    $PML4, %eax
        movl    %eax, %cr3
        movl    $MSR_EFER, %ecx
        rdmsr
        orl     $EFER_LME, %eax
        wrmsr
        movl    %cr0, %eax
        orl     $0x80000000, %eax
        movl    %eax, %cr0
        ljmp    $CODE64, $3f
        .code64
3:      jmp     *%rbx

        .org    0x1fe
        .word   0xaa55

/* ---- data, in the second sector ---- */
        .balign 8
idt_register:
        .word   IDT_ENTRIES * 16 - 1
        .quad   IDT
        .balign 16
pair:   .quad   0, 0
ticks:  .long   0
faults: .long   0
running: .long  1

pic_setup:                              /* port, value; ended by port 0 */
        .byte   0x20, 0x11, 0xa0, 0x11, 0x21, 0x20, 0xa1, 0x28
        .byte   0x21, 0x04, 0xa1, 0x02, 0x21, 0x01, 0xa1, 0x01
        .byte   0x21, 0xfe, 0xa1, 0xff, 0

msg_long:  .asciz "labctl proof: long mode\r\n"
msg_cpuid: .ascii "labctl proof: cpuid "
vendor:    .ascii "            "
           .asciz "\r\n"
msg_msr:   .asciz "labctl proof: rdmsr\r\n"
msg_fault: .asciz "labctl proof: page fault\r\n"
msg_pair:  .asciz "labctl proof: cmpxchg16b\r\n"
msg_timer: .asciz "labctl proof: timer\r\n"
msg_cpus:  .asciz "labctl proof: all vCPUs\r\n"
msg_done:  .asciz "labctl proof: complete\r\n"
msg_off:   .asciz "labctl proof: power button\r\n"
msg_failed: .asciz "labctl proof: FAILED\r\n"

/* ---- the other vCPUs: they begin here in real mode at 0800:0000 ---- */
        .org    0x400
        .code16
        cli
        xorw    %ax, %ax
        movw    %ax, %ds
        lgdtl   gdt_register
        movl    %cr0, %eax
        orb     $1, %al
        andl    $0x9fffffff, %eax       /* caches on */
        movl    %eax, %cr0
        ljmpl   $CODE32, $1f
        .code32
1:      movw    $DATA, %ax
        movw    %ax, %ds
        movl    $2f, %ebx
        jmp     enter_long
        .code64
2:      lock incl running
3:      hlt
        jmp     3b

/* ---- long mode, first vCPU ---- */
boot64:
        movl    $STACK, %esp
        movl    $msg_long, %esi
        call    print
        xorl    %eax, %eax
        cpuid
        movl    %ebx, vendor
        movl    %edx, vendor + 4
        movl    %ecx, vendor + 8
        movl    $msg_cpuid, %esi
        call    print
        movl    $MSR_EFER, %ecx
        rdmsr
        testl   $EFER_LMA, %eax
        jz      failed
        movl    $msg_msr, %esi
        call    print

        movl    $IDT, %edi              /* every gate to `fault` ... */
        movl    $IDT_ENTRIES, %ecx
        movl    $fault, %eax
1:      call    gate
        addl    $16, %edi
        decl    %ecx
        jnz     1b
        movl    $IDT + 14 * 16, %edi    /* ... but two */
        movl    $page_fault, %eax
        call    gate
        movl    $IDT + 0x20 * 16, %edi
        movl    $timer, %eax
        call    gate
        lidt    idt_register

        movabs  $UNMAPPED, %rax         /* touch it: `page_fault` skips the access */
        movb    (%rax), %al             /* two bytes long */
        cmpl    $1, faults
        jne     failed
        movl    $msg_fault, %esi
        call    print

        movl    $1, %eax                /* kernels allocate memory by it where it is there */
        cpuid
        btl     $13, %ecx
        jnc     8f
        xorl    %eax, %eax              /* two words of 0 become 1, 0 */
        xorl    %edx, %edx
        movl    $1, %ebx
        xorl    %ecx, %ecx
        movl    $pair, %ebp
        lock cmpxchg16b (%rbp)
        jnz     failed
        cmpl    $1, pair
        jne     failed
        movl    $msg_pair, %esi
        call    print
8:
        movl    $pic_setup, %esi        /* vectors from 0x20, timer alone unmasked */
2:      lodsb
        movzbl  %al, %edx
        testl   %edx, %edx
        jz      3f
        lodsb
        outb    %al, %dx
        jmp     2b
3:      sti
4:      hlt
        cmpl    $3, ticks
        jb      4b
        movl    $msg_timer, %esi
        call    print

        movw    $FW_CFG_SELECT, %dx     /* how many vCPUs, says QEMU */
        movw    $FW_CFG_NB_CPUS, %ax
        outw    %ax, %dx
        movw    $FW_CFG_DATA, %dx
        inb     %dx, %al
        movzbl  %al, %ebp
        movl    $LAPIC_ICR_LOW, %ebx
        movl    $INIT_OTHERS, (%rbx)
        call    tick
        movl    $SIPI_OTHERS, (%rbx)
        movl    $180, %edi              /* ten seconds of ticks at most */
5:      call    tick
        cmpl    %ebp, running
        je      6f
        decl    %edi
        jnz     5b
        jmp     failed
6:      movl    $msg_cpus, %esi
        call    print
        movl    $msg_done, %esi
        call    print
        movw    $DEBUG_EXIT, %dx
        movb    $0x10, %al              /* QEMU exits with 0x10 * 2 + 1 = 33 */
        outb    %al, %dx

        movw    $PM1_ENABLE, %dx        /* not ended: an ordinary domain */
        movw    $POWER_BUTTON, %ax
        outw    %ax, %dx
7:      call    tick
        movw    $PM1_STATUS, %dx
        inw     %dx, %ax
        testw   $POWER_BUTTON, %ax
        jz      7b
        movl    $msg_off, %esi
        call    print
        movw    $PM1_CONTROL, %dx
        movw    $SLEEP_S5, %ax
        outw    %ax, %dx
8:      hlt
        jmp     8b

tick:                                   /* sleep until the next timer interrupt */
        movl    ticks, %eax
1:      hlt
        cmpl    %eax, ticks
        je      1b
        ret

gate:                                   /* EAX: handler, RDI: entry of the IDT */
        movw    %ax, (%rdi)
        movw    $CODE64, 2(%rdi)
        movw    $0x8e00, 4(%rdi)
        movw    $0, 6(%rdi)
        movq    $0, 8(%rdi)
        ret

print:                                  /* RSI: text ended by 0 */
        movw    $COM1 + 5, %dx
1:      inb     %dx, %al
        testb   $0x20, %al
        jz      1b
        lodsb
        testb   %al, %al
        jz      2f
        movw    $COM1, %dx
        outb    %al, %dx
        jmp     print
2:      ret

fault:
failed:
        cli
        movl    $msg_failed, %esi
        call    print
        movw    $DEBUG_EXIT, %dx
        movb    $0x11, %al              /* QEMU exits with 35 */
        outb    %al, %dx
3:      hlt
        jmp     3b

page_fault:                             /* the error code lies on top of the stack */
        incl    faults
        addq    $8, %rsp
        addq    $2, (%rsp)
        iretq

timer:
        pushq   %rax
        incl    ticks
        movb    $0x20, %al
        outb    %al, $0x20
        popq    %rax
        iretq

        .org    0x800
