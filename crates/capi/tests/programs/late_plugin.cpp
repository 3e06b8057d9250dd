// A library in C++ for a program in C: the C++ runtime comes with it, and into no scope but its own.
#include <new>

static int handled;

// 1 when operator new threw as it must, after the handler was called.
extern "C" int plugin_runs_out() {
    const unsigned long huge = 1ul << 60;
    handled = 0;
    std::set_new_handler([] {
        if (++handled == 2) std::set_new_handler(nullptr);
    });
    try {
        ::operator new(huge);
    } catch (const std::bad_alloc &) {
        return handled == 2 && !::operator new(huge, std::nothrow);
    }
    return 0;
}
