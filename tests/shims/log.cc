// NCCL's words: level, subsystems and file from NCCL_DEBUG*, read once and by ncclResetDebugInit.
// Not nccl.conf.
#include "log.h"

#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>

namespace shim {

namespace {

struct Log {
    std::mutex mutex;
    bool read = false, version_said = false;
    Level level = Level::None;
    unsigned subsystems = 0;
    FILE* file = nullptr;
    std::string host, last;
};

Log& log() {
    static auto* one = new Log;
    return *one;
}

unsigned bit_of(const std::string& name) {
    static const struct {
        const char* name;
        unsigned bit;
    } rows[] = {{"INIT", Init}, {"COLL", Coll}, {"GRAPH", Graphs}, {"TUNING", Tuning},
                {"ENV", Env}, {"BOOTSTRAP", Boot}, {"ALL", ~0u}};
    for (auto& row : rows)
        if (!strcasecmp(row.name, name.c_str())) return row.bit;
    return 0;
}

std::string with_places(const char* pattern, const std::string& host) {
    std::string out;
    for (const char* at = pattern; *at; at++) {
        if (at[0] == '%' && at[1] == 'h') out += host, at++;
        else if (at[0] == '%' && at[1] == 'p') out += std::to_string(getpid()), at++;
        else if (at[0] == '%' && at[1] == '%') out += '%', at++;
        else out += *at;
    }
    return out;
}

// With the mutex held.
void read_environment() {
    Log& all = log();
    if (all.read) return;
    all.read = true;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    all.host = host;
    all.host = all.host.substr(0, all.host.find('.'));
    const char* level = std::getenv("NCCL_DEBUG");
    all.level = Level::None;
    const char* names[] = {"NONE", "VERSION", "WARN", "INFO", "ABORT", "TRACE"};
    for (int i = 0; level && i < 6; i++)
        if (!strcasecmp(level, names[i])) all.level = static_cast<Level>(i);
    all.subsystems = Init | Boot | Env;
    if (const char* list = std::getenv("NCCL_DEBUG_SUBSYS")) {
        bool inverted = *list == '^';
        unsigned bits = 0;
        std::string rest = inverted ? list + 1 : list;
        while (!rest.empty()) {
            size_t comma = rest.find(',');
            bits |= bit_of(rest.substr(0, comma));
            rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
        }
        all.subsystems = inverted ? ~bits : bits;
    }
    if (all.file && all.file != stdout) fclose(all.file);
    all.file = stdout;
    const char* name = std::getenv("NCCL_DEBUG_FILE");
    if (name && *name && all.level > Level::Version) {
        FILE* opened = std::fopen(with_places(name, all.host).c_str(), "w");
        if (opened) all.file = opened;
    }
    setvbuf(all.file, nullptr, _IOLBF, 0);
}

std::string prefix(int device) {
    return log().host + ":" + std::to_string(getpid()) + ":" + std::to_string(syscall(SYS_gettid)) +
           " [" + std::to_string(device) + "] ";
}

}  // namespace

bool logs(Level level, unsigned subsystem) {
    std::lock_guard<std::mutex> hold(log().mutex);
    read_environment();
    return log().level >= level && (level < Level::Info || (log().subsystems & subsystem));
}

void info(unsigned subsystem, int device, const char* format, ...) {
    if (!logs(Level::Info, subsystem)) return;
    char words[2048];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    std::lock_guard<std::mutex> hold(log().mutex);
    std::fprintf(log().file, "%sNCCL INFO %s\n", prefix(device).c_str(), words);
}

void warn(const char* function, const char* format, ...) {
    char words[2048];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    bool said = logs(Level::Warn, ~0u);
    std::lock_guard<std::mutex> hold(log().mutex);
    log().last = words;
    if (!said) return;
    char when[32];
    time_t now = std::time(nullptr);
    tm broken;
    std::strftime(when, sizeof when, "%F %T", localtime_r(&now, &broken));
    std::fprintf(log().file, "\n[%s] %sshim.cc:0 (%s) NCCL WARN %s\n", when, prefix(0).c_str(),
                 function, words);
}

void say_version(int version) {
    bool full = logs(Level::Info, Init);
    bool any = logs(Level::Version, 0);
    {
        std::lock_guard<std::mutex> hold(log().mutex);
        if (log().version_said || !any) return;
        log().version_said = true;
    }
    char words[64];
    std::snprintf(words, sizeof words, "NCCL version %d.%d.%d+cuda13.0", version / 10000,
                  version / 100 % 100, version % 100);
    if (full) return info(Init, 0, "%s", words);
    std::lock_guard<std::mutex> hold(log().mutex);
    std::fprintf(log().file, "%s\n", words);
}

void reread_environment() {
    std::lock_guard<std::mutex> hold(log().mutex);
    log().read = false;
}

const char* last_warning() {
    std::lock_guard<std::mutex> hold(log().mutex);
    return log().last.c_str();
}

}  // namespace shim
