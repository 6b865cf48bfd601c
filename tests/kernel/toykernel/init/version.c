#include <generated/utsrelease.h>

const char linux_banner[] __attribute__((used)) = "Linux version " UTS_RELEASE;
