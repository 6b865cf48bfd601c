/*
 * Where the program starts: `bisector-suite true` leaves at once, `bisector-suite patch ...` goes to patch.c, and
 * everything else on to the C library.
 *
 * exec_test executes `true`, patch_series `patch`. A static C library asks the processor about its caches at start-up,
 * and in a virtual machine each of these CPUID instructions leaves the guest: measured here they were 80 % of the whole
 * operation of exec_test (0.34 of 0.42 ms), and would have hidden most of what the kernel does. Other architectures have
 * no such entry yet; there main() answers both.
 */
#if defined(__x86_64__)
__asm__(".text\n"
        ".globl suite_start\n"
        ".type suite_start, @function\n"
        "suite_start:\n"
        "    cmpq $2, (%rsp)\n" /* argc */
        "    jb 1f\n"
        "    movq 16(%rsp), %rax\n" /* argv[1] */
        "    jne 2f\n"
        "    cmpl $0x65757274, (%rax)\n" /* "true" */
        "    jne 1f\n"
        "    cmpb $0, 4(%rax)\n"
        "    jne 1f\n"
        "    movl $231, %eax\n" /* exit_group(0) */
        "    xorl %edi, %edi\n"
        "    syscall\n"
        "2:  cmpl $0x63746170, (%rax)\n" /* "patch" */
        "    jne 1f\n"
        "    cmpw $0x68, 4(%rax)\n"
        "    jne 1f\n"
        "    leaq 24(%rsp), %rdi\n" /* argv + 2 */
        "    xorl %ebp, %ebp\n"
        "    andq $-16, %rsp\n"
        "    call patch_tool\n"
        "1:  jmp _start\n"
        ".size suite_start, . - suite_start\n");
#endif
