import { type IncomingMessage, type Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { type Clock, every } from "@svc/runtime/clock";
import { type WebSocket, WebSocketServer } from "ws";
import type { Endpoint } from "./endpoint.ts";
import { ApiError } from "./errors.ts";
import { apiPrefix } from "./paths.ts";

/** What endpoints that go on as a WebSocket are given. */
export interface Upgrades {
  /** Throws BAD_REQUEST for a request that did not ask for it, and FORBIDDEN for one of somebody else's page. */
  require(request: IncomingMessage): void;
  /**
   * The connection of the request, as a WebSocket from here on. Rejects when the client is gone, or does not speak `protocol`:
   * then it was answered. It is paused, for whoever listens first; it is pinged, and ended when it does not answer, or control stops.
   */
  accept(request: IncomingMessage, options: { protocol: string; messageBytesMax: number }): Promise<WebSocket>;
}

/** The side of it that the server itself needs. */
export interface UpgradeServer extends Upgrades {
  /** Whether the request asks for an endpoint that goes on so, and for that. Others are answered as if they had not asked. */
  isWanted(request: IncomingMessage): boolean;
  serve(server: Server): void;
  /** Ends all, each with a word. */
  end(): void;
}

interface Asked {
  socket: Socket;
  head: Buffer;
  response: ServerResponse;
}

/** The client went, or asked for what it cannot have, before there was a WebSocket. */
export class NotUpgraded extends Error {
  override readonly name = "NotUpgraded";
}

const pingMs = 30_000;
const closeMs = 1_000;
const goingAway = 1001;

/**
 * Requests for a WebSocket are requests first: they go the way of all others, so that whoever may not is told so as everywhere, and
 * only their endpoint turns them into something else.
 */
export function createUpgrades(
  { clock, apiUrl }: { clock: Clock; apiUrl(): string },
  endpoints: readonly Endpoint[],
): UpgradeServer {
  const paths = endpoints.filter(({ upgrades }) => upgrades).map(({ path }) => patternOf(path));
  const asked = new WeakMap<IncomingMessage, Asked>();
  const open = new Set<WebSocket>();

  function keep(socket: WebSocket): void {
    open.add(socket);
    let isAlive = true;
    socket.on("pong", () => {
      isAlive = true;
    });
    const pinging = every(clock, pingMs, () => {
      if (!isAlive) return socket.terminate();
      isAlive = false;
      socket.ping();
    });
    // Whoever uses it hears of its end.
    socket.on("error", () => {});
    socket.once("close", () => {
      open.delete(socket);
      pinging[Symbol.dispose]();
    });
  }

  return {
    isWanted: ({ method, url = "", headers }) =>
      method === "GET" &&
      headers.upgrade?.toLowerCase() === "websocket" &&
      paths.some((path) => path.test(url.split("?", 1)[0] ?? "")),

    serve(server) {
      server.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) => {
        const response = new ServerResponse(request);
        response.shouldKeepAlive = false;
        response.assignSocket(socket);
        // Refused, it is an answer like any other, and the last one.
        response.once("finish", () => socket.end());
        socket.on("error", () => socket.destroy());
        asked.set(request, { socket, head, response });
        server.emit("request", request, response);
      });
    },

    require(request) {
      if (!asked.has(request)) {
        throw new ApiError("BAD_REQUEST", { message: "This address is for WebSocket connections." });
      }
      // Browsers let every page open one, with the visitor's cookie.
      const { origin } = request.headers;
      if (origin !== undefined && origin !== apiUrl()) {
        throw new ApiError("FORBIDDEN", { message: "The request comes from another site." });
      }
    },

    accept(request, { protocol, messageBytesMax }) {
      const { promise, resolve, reject } = Promise.withResolvers<WebSocket>();
      const found = asked.get(request);
      if (found === undefined) throw new Error("the request is none for a WebSocket");
      const { socket, head, response } = found;
      const gone = () => reject(new NotUpgraded("the client is gone"));
      socket.once("close", gone);
      if (socket.destroyed) gone();
      const server = new WebSocketServer({
        ...{ noServer: true, clientTracking: false, perMessageDeflate: false, maxPayload: messageBytesMax },
        handleProtocols: (protocols) => (protocols.has(protocol) ? protocol : false),
      });
      server.on("wsClientError", (error) => reject(new NotUpgraded(error.message, { cause: error })));
      response.detachSocket(socket);
      // Pings see to it from here on.
      socket.setTimeout(0);
      server.handleUpgrade(request, socket, head, (webSocket) => {
        socket.removeListener("close", gone);
        keep(webSocket);
        // Until somebody listens.
        webSocket.pause();
        resolve(webSocket);
      });
      return promise;
    },

    end() {
      for (const socket of open) {
        socket.close(goingAway, "control stops");
        const cut = clock.after(closeMs, () => socket.terminate());
        socket.once("close", () => cut[Symbol.dispose]());
      }
    },
  };
}

const patternOf = (path: string): RegExp => new RegExp(`^${`${apiPrefix}${path}`.replaceAll(/:[A-Za-z]+/g, "[^/]+")}$`);
