import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Log } from "../log.ts";
import { answerOnSocket, type ClientRefusal, clientRefusal, refusalParts } from "./client-error.ts";
import { framingProblem, headersMax } from "./framing.ts";
import type { SecurityHeaders } from "./headers.ts";
import type { Timing } from "./timing.ts";

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

const maxHeaderBytes = 16 * 1024;

export interface ConnectionOptions {
  timing: Timing;
  security: SecurityHeaders;
  /** Whether a request may go on by another protocol. */
  isUpgrade(request: IncomingMessage): boolean;
  log: Log;
}

/** The server that the framework is put on: what is no request that we read is answered here and never reaches it. */
export function createConnections({ timing, security, isUpgrade, log }: ConnectionOptions) {
  /** The answer that is being written on a connection. */
  const answering = new WeakMap<Socket, ServerResponse>();

  function refuse(request: IncomingMessage, response: ServerResponse, refusal: ClientRefusal): void {
    const { headers, body } = refusalParts(refusal, security);
    log.info(
      { status: refusal.status, why: refusal.message, address: request.socket.remoteAddress },
      "request refused",
    );
    response.writeHead(refusal.status, headers).end(body);
  }

  function serverFactory(handler: Handler): Server {
    const server = createServer(
      {
        maxHeaderSize: maxHeaderBytes,
        headersTimeout: timing.headersMs,
        requestTimeout: timing.requestMs,
        keepAliveTimeout: timing.keepAliveMs,
        keepAliveTimeoutBuffer: 1_000,
        connectionsCheckingInterval: timing.checkMs,
        // Judged below, in our own words.
        requireHostHeader: false,
        shouldUpgradeCallback: isUpgrade,
      },
      (request, response) => {
        answering.set(request.socket, response);
        const { url: target = "", httpVersion, rawHeaders } = request;
        const problem = framingProblem({ target, httpVersion, rawHeaders });
        if (problem === null) handler(request, response);
        else refuse(request, response, problem);
      },
    );
    server.setTimeout(timing.idleMs);
    server.maxConnections = timing.connectionsMax;
    // The parser drops what is beyond without a word; one more than allowed is enough to see that there were more.
    server.maxHeadersCount = headersMax + 1;
    server.on("checkExpectation", (request, response) =>
      refuse(request, response, { status: 417, message: "The only expectation that is met is 100-continue." }),
    );
    server.on("drop", () =>
      log.warn({ connectionsMax: timing.connectionsMax }, "connection dropped: too many are open"),
    );
    return server;
  }

  /**
   * Answers what the parser refused, unless the client would take that for something else: for the rest of an answer
   * that has begun, or for the answer to an earlier request that has not.
   */
  function clientErrorHandler(error: Error & { code?: string }, socket: Socket): void {
    const response = answering.get(socket);
    const isOpen = response !== undefined && !response.writableFinished;
    const isMisleading = isOpen && (response.headersSent || response.req.complete);
    if (error.code === "ECONNRESET" || !socket.writable || isMisleading) socket.destroy();
    else answerOnSocket(socket, clientRefusal(error.code), security);
  }

  return { serverFactory, clientErrorHandler };
}
