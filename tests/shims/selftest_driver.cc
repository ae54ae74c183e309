// The driver's rules: what works, and what each misuse answers.
// Not the collectives.
#include "selftest.h"
void test_driver() {}
