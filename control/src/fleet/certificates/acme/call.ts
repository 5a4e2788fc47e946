import type { IncomingHttpHeaders, request } from "node:http";
import { request as secureRequest } from "node:https";
import type { Clock } from "@svc/runtime/clock";
import { readAnswer } from "@svc/runtime/http-answer";
import { AcmeError } from "./problem.ts";

export interface CaAnswer {
  status: number;
  headers: IncomingHttpHeaders;
  body: string;
}

export interface CaCall {
  method: "GET" | "HEAD" | "POST";
  url: string;
  /** A JWS. */
  body?: string;
  accept?: string;
}

/** One request to a CA, within bounds of time and size. Redirects are not followed. Throws `AcmeError` of trouble "away" or the reason of `signal`. */
export type CallCa = (call: CaCall, signal: AbortSignal) => Promise<CaAnswer>;

const answerTimeoutMs = 30_000;
const answerBytesMax = 512 * 1024;

/**
 * @param options.rootPem the only authorities that the CA's own certificate may come from; null for the system's
 * @param options.userAgent demanded by RFC 8555, 6.1
 */
export function createCallCa({
  clock,
  rootPem,
  userAgent,
}: {
  clock: Clock;
  rootPem: string | null;
  userAgent: string;
}): CallCa {
  return (call, signal) => {
    const send = call.url.startsWith("https://") ? secureRequest : null;
    if (send === null) return Promise.reject(new AcmeError("nonsense", "a CA is asked over HTTPS only"));
    return new Promise<CaAnswer>((resolve, reject) => {
      const fail = (cause: Error): void =>
        reject(
          signal.aborted ? signal.reason : new AcmeError("away", `the CA does not answer: ${cause.message}`, { cause }),
        );
      const headers: Record<string, string | number> = { "User-Agent": userAgent, "Accept-Language": "en" };
      if (call.accept !== undefined) headers["Accept"] = call.accept;
      if (call.body !== undefined) {
        headers["Content-Type"] = "application/jose+json";
        headers["Content-Length"] = Buffer.byteLength(call.body);
      }
      const sent: ReturnType<typeof request> = send(call.url, {
        method: call.method,
        headers,
        agent: false,
        signal: AbortSignal.any([signal, clock.abortAfter(answerTimeoutMs)]),
        ...(rootPem !== null && { ca: rootPem }),
      });
      sent.once("error", fail);
      sent.once("response", (answer) => {
        readAnswer(answer, answerBytesMax).then(
          (body) => resolve({ status: answer.statusCode ?? 0, headers: answer.headers, body }),
          fail,
        );
      });
      sent.end(call.body);
    });
  };
}
