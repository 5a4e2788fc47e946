import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Bucket, createBucket } from "./bucket.ts";
import { probeBucket } from "./probe.ts";
import { startS3, type TestS3 } from "./testing.ts";

const deps = { clock: systemClock, random: systemRandom };
let s3: TestS3;
let bucket: Bucket;
beforeAll(async () => {
  s3 = await startS3("sites/one/");
  bucket = createBucket(deps, s3.settings, { attempts: 1 });
});
afterAll(() => s3?.[Symbol.asyncDispose]());

test("what is put can be got, and not once it is removed", async () => {
  const content = randomBytes(300_000);
  await bucket.put("a/b c+(d)", content);
  expect(await s3.names()).toContain("sites/one/a/b c+(d)");
  expect((await bucket.get("a/b c+(d)", content.length)).equals(content)).toBe(true);
  await bucket.put("a/b c+(d)", Buffer.from("x"));
  expect(await bucket.get("a/b c+(d)", 10)).toEqual(Buffer.from("x"));
  await bucket.remove("a/b c+(d)");
  await bucket.remove("a/b c+(d)");
  await expect(bucket.get("a/b c+(d)", 10)).rejects.toMatchObject({ reason: "absent" });
});

test("an object that is larger than it may be is refused", async () => {
  await bucket.put("large", randomBytes(100_000));
  await expect(bucket.get("large", 99_999)).rejects.toMatchObject({ reason: "refused" });
});

describe("a look says why a bucket is of no use", () => {
  const look = (changes: Partial<TestS3["settings"]>) =>
    probeBucket(systemClock, createBucket(deps, { ...s3.settings, ...changes }, { attempts: 1 }), 10_000);

  test("and null when it is, of which nothing is left there", async () => {
    expect(await look({})).toBeNull();
    expect(await s3.names()).not.toContain("sites/one/doctor");
  });

  test.each([
    [{ accessKeyId: "nobody" }, /SVC_S3_ACCESS_KEY_ID \(403 InvalidAccessKeyId\)/],
    [{ secretAccessKey: "wrong" }, /SVC_S3_SECRET_ACCESS_KEY_FILE.*SignatureDoesNotMatch/],
    [{ bucket: "another" }, /SVC_S3_BUCKET/],
    [{ endpoint: "http://127.0.0.1:9" }, /^it does not answer: /],
  ])("%j", async (changes, says) => {
    expect(await look(changes)).toMatch(says);
  });
});

test("a server that is away for a moment is asked again", async () => {
  const patient = createBucket(deps, s3.settings, { attempts: 20 });
  await s3.stop();
  const putting = patient.put("patient", Buffer.from("x"));
  await expect(bucket.put("patient", Buffer.from("x"))).rejects.toMatchObject({ reason: "away" });
  await s3.start();
  await putting;
  expect(await bucket.get("patient", 1)).toEqual(Buffer.from("x"));
});

test("who breaks off a call hears the own reason, and a server that never answers is given up", async () => {
  const silent = createServer(() => {}).listen(0, "127.0.0.1");
  await once(silent, "listening");
  const address = silent.address();
  const endpoint = `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}`;
  const slow = createBucket(deps, { ...s3.settings, endpoint }, { attempts: 1, timeoutMs: 300 });
  try {
    await expect(slow.get("a", 1)).rejects.toMatchObject({ reason: "away" });
    const stop = new AbortController();
    const asked = createBucket(deps, { ...s3.settings, endpoint }).get("a", 1, stop.signal);
    stop.abort(new Error("enough"));
    await expect(asked).rejects.toThrow("enough");
  } finally {
    silent.closeAllConnections();
    silent.close();
  }
});
