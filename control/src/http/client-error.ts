import type { Socket } from "node:net";
import { errorMessage } from "@svc/proto";
import { errorEnvelope } from "./errors.ts";
import type { SecurityHeaders } from "./headers.ts";

const statusTexts = {
  400: "Bad Request",
  408: "Request Timeout",
  417: "Expectation Failed",
  431: "Request Header Fields Too Large",
} as const;

/** A refusal of what never became a request of ours. */
export interface ClientRefusal {
  status: keyof typeof statusTexts;
  message: string;
}

/** What a client is told about bytes that are not an HTTP request that we read. */
export function clientRefusal(code: string | undefined): ClientRefusal {
  if (code === "HPE_HEADER_OVERFLOW") return { status: 431, message: "The request's headers are too large." };
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return { status: 408, message: "The request took too long to arrive." };
  return { status: 400, message: errorMessage("BAD_REQUEST") };
}

/** Headers and body of the refusal, in the shape of every other error. The connection is not used again. */
export function refusalParts({ message }: ClientRefusal, headers: SecurityHeaders) {
  const body = JSON.stringify(errorEnvelope("BAD_REQUEST", message));
  return {
    headers: {
      ...headers,
      "content-type": "application/json; charset=utf-8",
      "content-length": `${Buffer.byteLength(body)}`,
      connection: "close",
    },
    body,
  };
}

/** Answers on a connection that has no response of its own, and ends it. */
export function answerOnSocket(socket: Socket, refusal: ClientRefusal, security: SecurityHeaders): void {
  const { headers, body } = refusalParts(refusal, security);
  const head = [
    `HTTP/1.1 ${refusal.status} ${statusTexts[refusal.status]}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\n${body}`);
}
