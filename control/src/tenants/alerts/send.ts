import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { type Egress, EgressBlocked, lookupOf } from "@svc/registry";
import type { Clock } from "@svc/runtime/clock";

/** A receiver has so long for the head of its answer, from the first look at its name on. */
const answerTimeoutMs = 10_000;

export interface SendDeps {
  clock: Clock;
  /** Judges where it leads, each time. */
  egress: Egress;
  /** PEM of the only authorities that receivers' certificates may come from; those of the system unless given. */
  ca?: string;
}

/** What came of it. Without a status there was no answer. The problem is for people. */
export interface Answer {
  status: number | null;
  problem: string | null;
}

/** Posts once. Follows no redirect, and reads nothing of the answer but its status. */
export async function post(
  { clock, egress, ca }: SendDeps,
  { url, headers, body }: { url: URL; headers: Record<string, string>; body: string },
  signal: AbortSignal,
): Promise<Answer> {
  const timeout = clock.abortAfter(answerTimeoutMs);
  try {
    const addresses = await egress(new URL(url.origin));
    const status = await new Promise<number>((resolve, reject) => {
      const send = url.protocol === "https:" ? httpsRequest : httpRequest;
      const sent = send(url, {
        method: "POST",
        // A connection of its own: the next one is judged again.
        agent: false,
        signal: AbortSignal.any([timeout, signal]),
        headers: { ...headers, "content-type": "application/json", "content-length": Buffer.byteLength(body) },
        ...(addresses !== null && { lookup: lookupOf(addresses) }),
        ...(ca !== undefined && { ca }),
      });
      sent.on("error", reject);
      // An answer that changes the protocol is neither an error nor a response: without this nothing would ever come of it.
      sent.on("close", () => reject(Object.assign(new Error("closed"), { code: "ECONNRESET" })));
      sent.on("response", (answer) => {
        resolve(answer.statusCode ?? 0);
        answer.destroy();
      });
      sent.end(body);
    });
    return { status, problem: problemOf(status) };
  } catch (error) {
    // It was not the receiver who ended it.
    if (signal.aborted) throw error;
    if (timeout.aborted) return { status: null, problem: `There was no answer within ${answerTimeoutMs / 1000} s.` };
    return { status: null, problem: reasonOf(error) };
  }
}

/** Why the platform does not call an address, as a sentence. */
export const notCalled = ({ message }: EgressBlocked): string =>
  `The platform does not call it: ${message.replace(/\.$/, "")}.`;

function problemOf(status: number): string | null {
  if (status >= 200 && status < 300) return null;
  if (status >= 300 && status < 400) return `It answered ${status}. Redirects are not followed.`;
  return `It answered ${status}.`;
}

const reasons: Readonly<Record<string, string>> = {
  ECONNREFUSED: "The connection was refused.",
  ECONNRESET: "The connection was closed without an answer.",
  EHOSTUNREACH: "There is no way there.",
  ENETUNREACH: "There is no way there.",
  ETIMEDOUT: "Nobody answers there.",
  EAI_AGAIN: "Its name could not be looked up.",
  CERT_HAS_EXPIRED: "Its certificate has expired.",
  DEPTH_ZERO_SELF_SIGNED_CERT: "Its certificate is not of a public authority.",
  SELF_SIGNED_CERT_IN_CHAIN: "Its certificate is not of a public authority.",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "Its certificate is not of a public authority.",
  ERR_TLS_CERT_ALTNAME_INVALID: "Its certificate is for another name.",
};

function reasonOf(error: unknown): string {
  if (error instanceof EgressBlocked) return notCalled(error);
  const { code = "" } = error as NodeJS.ErrnoException;
  return reasons[code] ?? "It could not be reached.";
}
