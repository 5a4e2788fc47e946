import type { IncomingMessage, ServerResponse } from "node:http";
import { type Door, isRefusal, type Refusal, type Ticket } from "../door.ts";
import type { Outlet } from "../hub.ts";
import { readSubscription } from "../subscription.ts";
import { connectionHeader, streamHeaders, textHeaders } from "./headers.ts";

/** Serves streams by Node's `http`, and `http2` by its compatible interface. */
export const serveNode =
  (door: Door) =>
  (request: IncomingMessage, response: ServerResponse): void => {
    let leave: (() => void) | null = null;
    let isGone = false;
    response.on("close", () => {
      isGone = true;
      leave?.();
    });
    // A connection that breaks is a client that leaves, and is heard of as such.
    response.on("error", () => {});

    const answer = (ticket: Ticket | Refusal): void => {
      // Somebody else may have answered while the application was asked: a limit of time, say.
      const isLate = isGone || response.headersSent;
      if (isRefusal(ticket)) {
        if (!isLate) response.writeHead(ticket.status, textHeaders).end(ticket.text);
      } else if (isLate) {
        ticket.cancel();
      } else {
        response.writeHead(
          200,
          request.httpVersionMajor > 1 ? streamHeaders : { ...streamHeaders, ...connectionHeader },
        );
        if (request.method === "HEAD") {
          // Proxies use its connection again at once: whoever came next would wait for the end of a stream that nobody sees.
          ticket.cancel();
          response.end();
          return;
        }
        response.flushHeaders();
        leave = ticket.enter(outletOf(response));
      }
    };

    const header = request.headers["last-event-id"];
    const asked = readSubscription(request.url ?? "", typeof header === "string" ? header : null);
    const ticket = door.ask(asked, request);
    if (ticket instanceof Promise) void ticket.then(answer);
    else answer(ticket);
  };

const outletOf = (response: ServerResponse): Outlet => ({
  write: (frame) => void response.write(frame),
  queuedBytes: () => response.writableLength,
  cut: () => void response.destroy(),
});
