// Streams: a queue and a thread each, so that a missing wait shows. Events: moments on them.
// Not capture: what is captured goes into a graph (capture.cc).
#include "core.h"
#include "setting.h"

#include <unistd.h>

#include <chrono>
#include <thread>

namespace shim {

namespace {

Handles& streams() {
    static auto* live = new Handles;
    return *live;
}

Handles& events() {
    static auto* live = new Handles;
    return *live;
}

std::mutex& list_mutex() {
    static auto* mutex = new std::mutex;
    return *mutex;
}

void work(Stream* stream) {
    std::unique_lock<std::mutex> hold(stream->mutex);
    for (;;) {
        stream->changed.wait(hold, [&] { return !stream->queue.empty() || stream->closing; });
        if (stream->queue.empty()) return;
        Task task = std::move(stream->queue.front());
        stream->queue.pop_front();
        hold.unlock();
        if (uint64_t delay = number("BUSBW_SHIM_STREAM_DELAY_US", 0)) usleep(delay);
        std::atomic<int>& spoiled = stream->context->spoiled;
        Result result = spoiled == Success ? task() : Success;
        int clean = Success;
        if (result != Success) spoiled.compare_exchange_strong(clean, result);
        task = nullptr;
        hold.lock();
        stream->done++;
        stream->changed.notify_all();
    }
}

// `stream` runs nothing further before `other` has done what it was given so far.
void push(Stream* stream, Task task) {
    std::lock_guard<std::mutex> hold(stream->mutex);
    if (!stream->started) {
        stream->started = true;
        std::thread(work, stream).detach();
    }
    stream->queue.push_back(std::move(task));
    stream->enqueued++;
    stream->changed.notify_all();
}

void after(Stream* stream, Stream* other) {
    uint64_t ticket = 0;
    {
        std::lock_guard<std::mutex> hold(other->mutex);
        if (other->done == other->enqueued) return;
        ticket = other->enqueued;
    }
    push(stream, [=] {
        other->wait_for(ticket);
        return Success;
    });
}

std::vector<Stream*> streams_of(Context* context) {
    std::lock_guard<std::mutex> hold(list_mutex());
    return context->streams;
}

bool capturing(Stream* stream) {
    std::lock_guard<std::mutex> hold(stream->mutex);
    return stream->capture != nullptr;
}

}  // namespace

Result create_stream(unsigned flags, Stream** out) {
    Context* context = nullptr;
    if (Result no = current(&context)) return no;
    if (!out || flags > 1) return InvalidValue;
    auto* stream = new Stream;
    stream->context = context;
    stream->blocking = flags == 0;
    std::lock_guard<std::mutex> hold(list_mutex());
    context->streams.push_back(stream);
    streams().add(stream);
    *out = stream;
    return Success;
}

Result destroy_stream(Stream* stream) {
    if (Result no = ready()) return no;
    if (!streams().remove(stream)) return InvalidHandle;
    std::lock_guard<std::mutex> hold(stream->mutex);
    stream->closing = true;
    stream->capture = nullptr;
    stream->changed.notify_all();
    return Success;
}

Result stream_of(void* handle, Stream** out) {
    Context* context = nullptr;
    if (Result no = current(&context)) return no;
    auto* stream = static_cast<Stream*>(handle);
    if (!handle) {
        stream = context->null_stream;
    } else if (!streams().has(handle) || !live_context(stream->context)) {
        return InvalidHandle;
    }
    *out = stream;
    return Success;
}

Result enqueue(Stream* stream, Task task) {
    if (int spoiled = stream->context->spoiled) return static_cast<Result>(spoiled);
    {
        std::lock_guard<std::mutex> hold(stream->mutex);
        if (stream->capture) {
            if (stream->capture->invalid) return CaptureInvalidated;
            stream->capture->graph->nodes.push_back(std::move(task));
            return Success;
        }
    }
    Context* context = stream->context;
    if (stream == context->null_stream) {
        for (Stream* other : streams_of(context)) {
            if (other == stream || !other->blocking) continue;
            if (capturing(other)) {
                invalidate_captures(context);
                return CaptureImplicit;
            }
            after(stream, other);
        }
    } else if (stream->blocking) {
        after(stream, context->null_stream);
    }
    push(stream, std::move(task));
    return Success;
}

Result synchronise(Stream* stream) {
    uint64_t ticket = 0;
    {
        std::lock_guard<std::mutex> hold(stream->mutex);
        if (stream->capture) {
            stream->capture->invalid = true;
            return CaptureUnsupported;
        }
        ticket = stream->enqueued;
    }
    // Waiting for the null stream is waiting for the streams that take turns with it.
    if (stream == stream->context->null_stream)
        for (Stream* other : streams_of(stream->context)) {
            uint64_t last = 0;
            if (!other->blocking || other == stream) continue;
            {
                std::lock_guard<std::mutex> hold(other->mutex);
                last = other->enqueued;
            }
            other->wait_for(last);
        }
    stream->wait_for(ticket);
    return static_cast<Result>(stream->context->spoiled.load());
}

Result query(Stream* stream) {
    std::lock_guard<std::mutex> hold(stream->mutex);
    if (stream->capture) {
        stream->capture->invalid = true;
        return CaptureUnsupported;
    }
    if (int spoiled = stream->context->spoiled) return static_cast<Result>(spoiled);
    return stream->done < stream->enqueued ? NotReady : Success;
}

Result synchronise_context(Context* context) {
    for (Stream* stream : streams_of(context)) {
        uint64_t ticket = 0;
        {
            std::lock_guard<std::mutex> hold(stream->mutex);
            ticket = stream->enqueued;
        }
        stream->wait_for(ticket);
    }
    return static_cast<Result>(context->spoiled.load());
}

Result create_event(unsigned flags, Event** out) {
    Context* context = nullptr;
    if (Result no = current(&context)) return no;
    if (!out || flags > 7) return InvalidValue;
    auto* event = new Event;
    event->context = context;
    event->timing = !(flags & 2);
    events().add(event);
    *out = event;
    return Success;
}

Result destroy_event(Event* event) {
    if (Result no = ready()) return no;
    return events().remove(event) ? Success : InvalidHandle;
}

Result record(Event* event, Stream* stream) {
    if (!events().has(event) || event->context != stream->context) return InvalidHandle;
    auto moment = std::make_shared<Moment>();
    Result enqueued = enqueue(stream, [moment] {
        std::lock_guard<std::mutex> hold(moment->mutex);
        moment->reached = true;
        moment->nanoseconds = std::chrono::steady_clock::now().time_since_epoch().count();
        moment->changed.notify_all();
        return Success;
    });
    if (enqueued != Success) return enqueued;
    event->last = moment;
    event->captured = capturing(stream);
    return Success;
}

Result query(Event* event) {
    if (!events().has(event)) return InvalidHandle;
    if (event->captured) return CapturedEvent;
    if (int spoiled = event->context->spoiled) return static_cast<Result>(spoiled);
    if (!event->last) return Success;
    std::lock_guard<std::mutex> hold(event->last->mutex);
    return event->last->reached ? Success : NotReady;
}

Result synchronise(Event* event) {
    if (!events().has(event)) return InvalidHandle;
    if (event->captured) return CapturedEvent;
    auto moment = event->last;
    if (!moment) return Success;
    // A spoiled context runs no further tasks, so its events would never come.
    std::unique_lock<std::mutex> hold(moment->mutex);
    while (!moment->reached && event->context->spoiled == Success)
        moment->changed.wait_for(hold, std::chrono::milliseconds(5));
    return static_cast<Result>(event->context->spoiled.load());
}

Result elapsed(float* milliseconds, Event* from, Event* to) {
    if (!milliseconds) return InvalidValue;
    if (!events().has(from) || !events().has(to)) return InvalidHandle;
    if (!from->timing || !to->timing || !from->last || !to->last) return InvalidHandle;
    if (from->captured || to->captured || from->context != to->context) return InvalidHandle;
    std::lock_guard<std::mutex> hold_to(to->last->mutex);
    if (!to->last->reached) return NotReady;
    if (from->last == to->last) return *milliseconds = 0, Success;
    std::lock_guard<std::mutex> hold_from(from->last->mutex);
    if (!from->last->reached) return NotReady;
    *milliseconds = static_cast<float>(to->last->nanoseconds - from->last->nanoseconds) / 1e6f;
    return Success;
}

Result wait_event(Stream* stream, Event* event) {
    if (!events().has(event)) return InvalidHandle;
    if (capturing(stream) != event->captured && event->last) {
        invalidate_captures(stream->context);
        return CaptureUnsupported;  // the shim captures one stream at a time
    }
    auto moment = event->last;
    if (!moment || event->captured) return Success;
    return enqueue(stream, [moment, recorder = event->context] {
        std::unique_lock<std::mutex> hold(moment->mutex);
        while (!moment->reached && recorder->spoiled == Success)
            moment->changed.wait_for(hold, std::chrono::milliseconds(5));
        return Success;
    });
}

}  // namespace shim
