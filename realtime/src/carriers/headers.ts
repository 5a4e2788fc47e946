// @pure

/** Of a stream. Proxies that would gather it first are asked not to. */
export const streamHeaders = {
  "Content-Type": "text/event-stream",
  "Cache-Control": "no-cache",
  "X-Accel-Buffering": "no",
};

/** Known to HTTP/1.1 alone. */
export const connectionHeader = { Connection: "keep-alive" };

/** Of a refusal. */
export const textHeaders = { "Content-Type": "text/plain; charset=utf-8" };
