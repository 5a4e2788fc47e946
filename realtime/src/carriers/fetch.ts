import { type Door, isRefusal, type Refusal, type Ticket } from "../door.ts";
import { maxQueuedBytes } from "../hub.ts";
import { readSubscription } from "../subscription.ts";
import { connectionHeader, streamHeaders, textHeaders } from "./headers.ts";

/** Nobody hears of it: the client left while the application was asked. */
const clientLeft = 499;

/** Serves streams to whatever has a Fetch `Request` and wants a `Response`. */
export const serveFetch =
  (door: Door) =>
  (request: Request): Response | Promise<Response> => {
    const answer = (ticket: Ticket | Refusal): Response => {
      if (isRefusal(ticket)) return new Response(ticket.text, { status: ticket.status, headers: textHeaders });
      if (request.signal.aborted) {
        ticket.cancel();
        return new Response(null, { status: clientLeft });
      }
      const headers = { ...streamHeaders, ...connectionHeader };
      if (request.method === "HEAD") {
        ticket.cancel();
        return new Response(null, { headers });
      }
      return new Response(streamOf(ticket, request), { headers });
    };

    const ticket = door.ask(readSubscription(request.url, request.headers.get("last-event-id")), request);
    return ticket instanceof Promise ? ticket.then(answer) : answer(ticket);
  };

/**
 * A client's stream. Whoever carries it says by its cancellation or by the request's signal that the client has left, or by both. It
 * keeps the request: Node's signal says nothing any more once the request that it is of has been collected.
 */
function streamOf(ticket: Ticket, request: Request): ReadableStream<Uint8Array> {
  let leave = (): void => {};
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        const end = (): void => {
          leave();
          // Nobody reads any more, and it may have been cancelled already.
          try {
            controller.close();
          } catch {}
        };
        const off = (): void => request.signal.removeEventListener("abort", end);
        const free = ticket.enter({
          write: (frame) => controller.enqueue(frame),
          queuedBytes: () => maxQueuedBytes - (controller.desiredSize ?? 0),
          cut() {
            off();
            controller.error(new Error("the client is too slow"));
          },
        });
        leave = () => {
          off();
          free();
        };
        request.signal.addEventListener("abort", end);
      },
      cancel: () => leave(),
    },
    new ByteLengthQueuingStrategy({ highWaterMark: maxQueuedBytes }),
  );
}
