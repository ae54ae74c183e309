// Stream capture and graphs: a list of tasks, recorded from one stream and replayed on another.
// Not capture over several streams joined by events: refused.
#include "core.h"

namespace shim {

namespace {

Handles& graphs() {
    static auto* live = new Handles;
    return *live;
}

Handles& executables() {
    static auto* live = new Handles;
    return *live;
}

struct Ongoing {
    std::mutex mutex;
    std::vector<std::weak_ptr<Capture>> captures;  // a stream that ends takes its own along
};

Ongoing& ongoing() {
    static auto* all = new Ongoing;
    return *all;
}

constexpr int global = 0, thread_local_mode = 1, relaxed = 2;
thread_local int mode_of_thread = global;

}  // namespace

Result begin_capture(void* handle, int mode) {
    Stream* stream = nullptr;
    if (Result no = stream_of(handle, &stream)) return no;
    if (mode < global || mode > relaxed) return InvalidValue;
    if (!handle) return CaptureUnsupported;  // the null stream cannot be captured
    std::lock_guard<std::mutex> hold(stream->mutex);
    if (stream->capture) return InvalidValue;
    stream->capture = std::make_shared<Capture>();
    stream->capture->mode = mode;
    stream->capture->thread = this_thread();
    std::lock_guard<std::mutex> list(ongoing().mutex);
    ongoing().captures.push_back(stream->capture);
    return Success;
}

Result end_capture(void* handle, Graph** out) {
    Stream* stream = nullptr;
    if (Result no = stream_of(handle, &stream)) return no;
    if (!out) return InvalidValue;
    *out = nullptr;
    std::shared_ptr<Capture> capture;
    {
        std::lock_guard<std::mutex> hold(stream->mutex);
        if (!stream->capture) return InvalidValue;
        if (stream->capture->mode != relaxed && stream->capture->thread != this_thread())
            return CaptureWrongThread;
        capture = stream->capture;
        stream->capture = nullptr;
    }
    if (capture->invalid) return CaptureInvalidated;
    auto* graph = new Graph(*capture->graph);
    graphs().add(graph);
    *out = graph;
    return Success;
}

Result capture_status(void* handle, int* status) {
    Stream* stream = nullptr;
    if (Result no = stream_of(handle, &stream)) return no;
    if (!status) return InvalidValue;
    std::lock_guard<std::mutex> hold(stream->mutex);
    *status = !stream->capture ? 0 : stream->capture->invalid ? 2 : 1;
    return Success;
}

Result exchange_mode(int* mode) {
    if (Result no = ready()) return no;
    if (!mode || *mode < global || *mode > relaxed) return InvalidValue;
    std::swap(*mode, mode_of_thread);
    return Success;
}

// CUDA driver API, cuThreadExchangeStreamCaptureMode: which captures forbid which thread's calls.
Result unsafe_call() {
    if (mode_of_thread == relaxed) return Success;
    std::lock_guard<std::mutex> hold(ongoing().mutex);
    Result result = Success;
    for (auto& weak : ongoing().captures) {
        auto capture = weak.lock();
        if (!capture) continue;
        bool own = capture->thread == this_thread();
        bool forbids = own ? capture->mode != relaxed
                           : mode_of_thread == global && capture->mode == global;
        if (!forbids) continue;
        capture->invalid = true;
        result = CaptureUnsupported;
    }
    return result;
}

void invalidate_captures(Context* context) {
    for (Stream* stream : context->streams) {
        std::lock_guard<std::mutex> hold(stream->mutex);
        if (stream->capture) stream->capture->invalid = true;
    }
}

Result instantiate(Graph* graph, Graph** out) {
    if (Result no = ready()) return no;
    if (!out) return InvalidValue;
    if (!graphs().has(graph)) return InvalidValue;
    auto* executable = new Graph(*graph);
    executables().add(executable);
    *out = executable;
    return Success;
}

Result launch(Graph* executable, Stream* stream) {
    if (!executables().has(executable)) return InvalidValue;
    for (const Task& node : executable->nodes)
        if (Result no = enqueue(stream, node)) return no;
    return Success;
}

Result destroy_graph(Graph* graph, bool executable) {
    if (Result no = ready()) return no;
    if (!(executable ? executables() : graphs()).remove(graph)) return InvalidValue;
    graph->nodes.clear();
    return Success;
}

}  // namespace shim
