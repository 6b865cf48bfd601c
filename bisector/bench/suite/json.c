/* Text as JSON has it. Apart from print.c: a failure is told as JSON too, and printing may fail. */
#include "suite.h"

void print_json_text(const char *text)
{
    putchar('"');
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if (*at == '"' || *at == '\\')
            printf("\\%c", *at);
        else if (*at < 0x20 || *at >= 0x7f)
            printf("\\u%04x", *at); /* paths in other encodings come out byte by byte: readable, and valid JSON */
        else
            putchar(*at);
    }
    putchar('"');
}
