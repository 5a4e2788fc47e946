import type { Clock } from "@svc/runtime/clock";
import type { Bucket } from "./bucket.ts";
import { BucketError } from "./errors.ts";

const name = "doctor";
const content = Buffer.from("svc asks whether this bucket can be written, read and deleted from\n");

/** Why a bucket is of no use now, in words for operators; null: it takes an object, gives it back, and deletes it. */
export async function probeBucket(clock: Clock, bucket: Bucket, timeoutMs: number): Promise<string | null> {
  const signal = clock.abortAfter(timeoutMs);
  try {
    await bucket.put(name, content, signal);
    const found = await bucket.get(name, content.length, signal);
    await bucket.remove(name, signal);
    return found.equals(content) ? null : "it gives back something else than it took";
  } catch (error) {
    if (error instanceof BucketError)
      return error.reason === "absent" ? "it does not keep what it took" : error.message;
    if (signal.aborted) return `no answer within ${timeoutMs / 1000} s`;
    throw error;
  }
}
