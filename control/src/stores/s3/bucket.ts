import type { Clock } from "@svc/runtime/clock";
import type { Random } from "@svc/runtime/random";
import { retry } from "@svc/runtime/retry";
import type { BucketSettings } from "../../settings/settings.ts";
import { answerError, BucketError } from "./errors.ts";
import { objectUrl, signedHeaders } from "./sign.ts";

/**
 * Objects of ours in a bucket that speaks S3, by names below the prefix. Methods throw `BucketError`, or the reason of `signal`.
 * What is away is tried again a few times; all of them may be repeated.
 */
export interface Bucket {
  /** Which one it is: what is in one is not in another. */
  readonly place: string;
  put(name: string, content: Uint8Array, signal?: AbortSignal): Promise<void>;
  /** All of an object, which is refused if it is larger than `bytesMax`. */
  get(name: string, bytesMax: number, signal?: AbortSignal): Promise<Buffer>;
  /** Does nothing when it is gone. */
  remove(name: string, signal?: AbortSignal): Promise<void>;
}

export interface BucketOptions {
  /** For one try at one request, its body included. 2 min unless given. */
  timeoutMs?: number;
  /** 3 unless given. */
  attempts?: number;
}

const errorBytesMax = 4096;
const backOff = { firstMs: 250, maxMs: 5_000 };

export const placeOf = ({ endpoint, bucket, prefix }: BucketSettings): string => `${endpoint}/${bucket}/${prefix}`;

export function createBucket(
  { clock, random }: { clock: Clock; random: Random },
  settings: BucketSettings,
  { timeoutMs = 120_000, attempts = 3 }: BucketOptions = {},
): Bucket {
  interface Call {
    method: "GET" | "PUT" | "DELETE";
    name: string;
    body?: Uint8Array;
    bytesMax?: number;
  }

  async function once({ method, name, body, bytesMax = 0 }: Call, signal: AbortSignal): Promise<Buffer> {
    const url = objectUrl(settings, `${settings.prefix}${name}`);
    const headers = signedHeaders(clock.now(), settings, { method, url, ...(body && { body }) });
    try {
      const response = await fetch(url, {
        ...{ method, headers, redirect: "manual", signal },
        ...(body && { body: Buffer.from(body.buffer, body.byteOffset, body.byteLength) }),
      });
      if (response.ok) return await readAll(response, bytesMax);
      throw answerError(response.status, (await readStart(response, errorBytesMax)).toString("utf8"));
    } catch (cause) {
      if (cause instanceof BucketError) throw cause;
      throw new BucketError("away", null, `it does not answer: ${reasonOf(cause)}`, { cause });
    }
  }

  function call(call: Call, signal: AbortSignal = new AbortController().signal): Promise<Buffer> {
    const mayHelp = (error: unknown) => error instanceof BucketError && error.reason === "away";
    return retry({ clock, random, backOff, signal, attempts, mayHelp }, async () => {
      try {
        return await once(call, AbortSignal.any([signal, clock.abortAfter(timeoutMs)]));
      } catch (error) {
        // Whoever ended it wants to hear the own reason.
        signal.throwIfAborted();
        throw error;
      }
    });
  }

  return {
    place: placeOf(settings),
    async put(name, body, signal) {
      await call({ method: "PUT", name, body }, signal);
    },
    get: (name, bytesMax, signal) => call({ method: "GET", name, bytesMax }, signal),
    async remove(name, signal) {
      await call({ method: "DELETE", name }, signal).catch((error: unknown) => {
        if (!(error instanceof BucketError) || error.reason !== "absent") throw error;
      });
    },
  };
}

/** Clients wrap what happened: "fetch failed" is nothing that helps. */
function reasonOf(error: unknown): string {
  const inner = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  if (!(inner instanceof Error)) return String(inner);
  return "code" in inner && typeof inner.code === "string" ? inner.code : inner.message;
}

async function readAll(response: Response, bytesMax: number): Promise<Buffer> {
  const content = await readStart(response, bytesMax);
  if (content.length > bytesMax) throw new BucketError("refused", null, `it answers more than ${bytesMax} bytes`);
  return content;
}

/** What a body begins with, and a little more than `bytesMax` if it goes on. */
async function readStart(response: Response, bytesMax: number): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of response.body ?? []) {
    parts.push(part);
    length += part.length;
    if (length > bytesMax) break;
  }
  return Buffer.concat(parts);
}
