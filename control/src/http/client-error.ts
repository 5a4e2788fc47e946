import type { Socket } from "node:net";
import { errorMessage } from "@svc/proto";
import { errorEnvelope } from "./errors.ts";

const statusTexts = { 400: "Bad Request", 408: "Request Timeout", 431: "Request Header Fields Too Large" } as const;

/** What a client is told about bytes that are not an HTTP request that we read. */
function refusal(code: string | undefined): { status: keyof typeof statusTexts; message: string } {
  if (code === "HPE_HEADER_OVERFLOW") return { status: 431, message: "The request's headers are too large." };
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return { status: 408, message: "The request took too long to arrive." };
  return { status: 400, message: errorMessage("BAD_REQUEST") };
}

/** Answers what the HTTP parser refused in the shape of every other error, and ends the connection. */
export function answerClientError(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === "ECONNRESET" || socket.destroyed || !socket.writable) {
    socket.destroy();
    return;
  }
  const { status, message } = refusal(error.code);
  const body = JSON.stringify(errorEnvelope("BAD_REQUEST", message));
  socket.end(
    [
      `HTTP/1.1 ${status} ${statusTexts[status]}`,
      "content-type: application/json; charset=utf-8",
      `content-length: ${Buffer.byteLength(body)}`,
      "connection: close",
      "",
      body,
    ].join("\r\n"),
  );
}
