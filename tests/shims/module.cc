// Modules: PTX text, of which the shim reads version, target, entries and their parameters.
// Not the instructions: a launch runs the host's restatement of the kernel (kernels_host.cc).
#include "core.h"

#include <cctype>
#include <cstdio>
#include <cstring>
#include <sstream>

// The kernels restated for the host; a build without them loads modules and fails launches.
extern "C" __attribute__((weak)) int busbw_kernel_launch(const char* name, const unsigned grid[3],
                                                         const unsigned block[3], void** params);

namespace shim {

struct Module {
    Context* context = nullptr;
    std::map<std::string, Function*> functions;
};

struct Function {
    Module* module = nullptr;
    std::string name;
    std::vector<size_t> parameter_bytes;
    unsigned most_threads = 1024;  // of a block: .maxntid
    int ptx_version = 0;  // 10 * major + minor
};

namespace {

constexpr int compute_capability = 90;  // of an H200

Handles& modules() {
    static auto* live = new Handles;
    return *live;
}

Handles& functions() {
    static auto* live = new Handles;
    return *live;
}

// PTX ISA, "Release Notes": the newest PTX version that each CUDA release reads.
int newest_ptx(int driver) {
    struct Row {
        int driver, ptx;
    };
    static const Row rows[] = {{13000, 90}, {12090, 88}, {12080, 87}, {12070, 86}, {12050, 85},
                               {12040, 84}, {12030, 83}, {12020, 82}, {12010, 81}, {12000, 80},
                               {11080, 78}, {11070, 77}, {11060, 76}, {11050, 75}, {11040, 74},
                               {11030, 73}, {11020, 72}, {11010, 71}, {11000, 70}};
    for (const Row& row : rows)
        if (driver >= row.driver) return row.ptx;
    return 65;
}

std::string without_comments(const char* image) {
    std::string out;
    for (const char* at = image; *at;) {
        if (at[0] == '/' && at[1] == '/') {
            while (*at && *at != '\n') at++;
        } else if (at[0] == '/' && at[1] == '*') {
            const char* end = std::strstr(at + 2, "*/");
            at = end ? end + 2 : at + std::strlen(at);
        } else {
            out += *at++;
        }
    }
    return out;
}

size_t bytes_of_type(const std::string& word) {
    static const std::map<std::string, size_t> sizes = {
        {".b8", 1},  {".u8", 1},  {".s8", 1},  {".b16", 2}, {".u16", 2}, {".s16", 2}, {".f16", 2},
        {".b32", 4}, {".u32", 4}, {".s32", 4}, {".f32", 4}, {".b64", 8}, {".u64", 8}, {".s64", 8},
        {".f64", 8}};
    auto at = sizes.find(word);
    return at == sizes.end() ? 0 : at->second;
}

// One of `.param .u64 name` or `.param .align 8 .b8 name[24]`.
size_t bytes_of_parameter(const std::string& declaration) {
    std::istringstream words(declaration);
    std::string word;
    size_t element = 0, count = 1;
    while (words >> word) {
        if (size_t size = bytes_of_type(word)) element = size;
        size_t bracket = word.find('[');
        if (bracket != std::string::npos) count = std::strtoull(&word[bracket + 1], nullptr, 10);
    }
    return element * count;
}

bool parse_entries(const std::string& ptx, int version, Module* module) {
    size_t at = 0;
    while ((at = ptx.find(".entry", at)) != std::string::npos) {
        at += 6;
        size_t open = ptx.find_first_of("({", at);
        if (open == std::string::npos) return false;
        auto* function = new Function;
        function->module = module;
        function->ptx_version = version;
        std::istringstream(ptx.substr(at, open - at)) >> function->name;
        if (ptx[open] == '(') {
            size_t close = ptx.find(')', open);
            if (close == std::string::npos) return false;
            std::istringstream list(ptx.substr(open + 1, close - open - 1));
            std::string declaration;
            while (std::getline(list, declaration, ',')) {
                if (declaration.find(".param") == std::string::npos) continue;
                size_t bytes = bytes_of_parameter(declaration);
                if (bytes == 0) return false;
                function->parameter_bytes.push_back(bytes);
            }
        }
        size_t body = ptx.find('{', at), bound = ptx.find(".maxntid", at);
        unsigned x = 1, y = 1, z = 1;
        if (bound < body && std::sscanf(&ptx[bound], ".maxntid %u, %u, %u", &x, &y, &z) >= 1)
            function->most_threads = x * y * z;
        module->functions[function->name] = function;
    }
    return true;
}

}  // namespace

Result load_module(const void* image, std::string* log, Module** out) {
    Context* context = nullptr;
    if (Result no = current(&context)) return no;
    if (Result no = unsafe_call()) return no;
    if (!image || !out) return InvalidValue;
    auto* text = static_cast<const char*>(image);
    while (std::isspace(static_cast<unsigned char>(*text))) text++;
    if (*text != '.' && *text != '/') return InvalidImage;  // a cubin or fatbin, or no image at all
    std::string ptx = without_comments(text);
    int major = 0, minor = 0, target = 0;
    size_t at = ptx.find(".version");
    if (at == std::string::npos || std::sscanf(&ptx[at], ".version %d.%d", &major, &minor) != 2) {
        *log = "ptxas fatal   : Missing .version directive at start of file";
        return InvalidPtx;
    }
    int version = 10 * major + minor;
    if (version > newest_ptx(driver_version())) {
        *log = "ptxas fatal   : Unsupported .version " + std::to_string(major) + "." +
               std::to_string(minor) + "; current version is '" +
               std::to_string(newest_ptx(driver_version()) / 10) + "." +
               std::to_string(newest_ptx(driver_version()) % 10) + "'";
        return UnsupportedPtxVersion;
    }
    at = ptx.find(".target");
    if (at == std::string::npos || std::sscanf(&ptx[at], ".target sm_%d", &target) != 1) {
        *log = "ptxas fatal   : Missing .target directive";
        return InvalidPtx;
    }
    if (target > compute_capability) return NoBinaryForGpu;
    auto* module = new Module;
    module->context = context;
    if (ptx.find(".address_size 64") == std::string::npos || !parse_entries(ptx, version, module)) {
        *log = "ptxas fatal   : Ptx assembly aborted due to errors";
        return InvalidPtx;
    }
    modules().add(module);
    *out = module;
    return Success;
}

Result unload_module(Module* module) {
    if (Result no = ready()) return no;
    if (!modules().remove(module)) return InvalidHandle;
    for (auto& entry : module->functions) functions().remove(entry.second);
    return Success;
}

Result function_of(Module* module, const char* name, Function** out) {
    if (Result no = ready()) return no;
    if (!name || !out) return InvalidValue;
    if (!modules().has(module)) return InvalidHandle;
    auto at = module->functions.find(name);
    if (at == module->functions.end()) return NotFound;
    functions().add(at->second);
    *out = at->second;
    return Success;
}

// Limits: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
Result launch_kernel(Function* function, const unsigned grid[3], const unsigned block[3],
                     unsigned shared_bytes, Stream* stream, void** parameters) {
    if (!functions().has(function)) return InvalidHandle;
    if (function->module->context != stream->context) return InvalidHandle;
    for (int i = 0; i < 3; i++)
        if (grid[i] == 0 || block[i] == 0) return InvalidValue;
    if (grid[0] > 0x7fffffffu || grid[1] > 65535 || grid[2] > 65535) return InvalidValue;
    if (block[0] > 1024 || block[1] > 1024 || block[2] > 64) return InvalidValue;
    if (uint64_t{block[0]} * block[1] * block[2] > function->most_threads) return InvalidValue;
    if (shared_bytes > 48 * 1024) return InvalidValue;
    size_t count = function->parameter_bytes.size();
    if (count && !parameters) return InvalidValue;

    struct Launch {
        std::string name;
        unsigned grid[3], block[3];
        std::vector<std::vector<char>> values;
    };
    auto launch = std::make_shared<Launch>();
    launch->name = function->name;
    std::memcpy(launch->grid, grid, sizeof launch->grid);
    std::memcpy(launch->block, block, sizeof launch->block);
    for (size_t i = 0; i < count; i++) {
        if (!parameters[i]) return InvalidValue;
        auto* from = static_cast<const char*>(parameters[i]);
        launch->values.emplace_back(from, from + function->parameter_bytes[i]);
    }
    return enqueue(stream, [launch]() -> Result {
        if (!busbw_kernel_launch) {
            std::fprintf(stderr, "busbw shim: built without the host's kernels, none for %s\n",
                         launch->name.c_str());
            return LaunchFailed;
        }
        std::vector<void*> pointers;
        for (auto& value : launch->values) pointers.push_back(value.data());
        int result = busbw_kernel_launch(launch->name.c_str(), launch->grid, launch->block,
                                         pointers.data());
        if (result != 0)
            std::fprintf(stderr, "busbw shim: kernel %s answers %d\n", launch->name.c_str(), result);
        return result == 0 ? Success : LaunchFailed;
    });
}

Result function_attribute(int* value, int attribute, Function* function) {
    if (!value) return InvalidValue;
    if (!functions().has(function)) return InvalidHandle;
    switch (attribute) {
        case 0: *value = static_cast<int>(function->most_threads); return Success;
        case 4: *value = 32; return Success;    // NUM_REGS
        case 5: *value = function->ptx_version; return Success;
        case 6: *value = compute_capability; return Success;  // BINARY_VERSION
        case 8: *value = 48 * 1024; return Success;           // MAX_DYNAMIC_SHARED_SIZE_BYTES
        default: *value = 0; return attribute >= 0 && attribute < 16 ? Success : InvalidValue;
    }
}

}  // namespace shim
