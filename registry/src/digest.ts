import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { RegistryError, unavailable } from "./errors.ts";

/** `sha256:` and the hex digest of `bytes`. */
export const digestOf = (bytes: Uint8Array): string => `sha256:${createHash("sha256").update(bytes).digest("hex")}`;

export interface Expectation {
  digest: string;
  /** Exact size when it is known. */
  sizeBytes?: number | undefined;
  /** Refused past this. */
  maxSizeBytes?: number | undefined;
}

/**
 * `body` passed on as it comes, checked as it goes: it errors (ARTIFACT_DIGEST_MISMATCH, ARTIFACT_TOO_LARGE,
 * ARTIFACT_REGISTRY_UNAVAILABLE when it breaks off) instead of ending when it is not what was expected.
 * Whoever reads it must not use the bytes before it has ended well.
 */
export function verified(body: Readable, expected: Expectation): Readable {
  // A transfer may break before anybody reads; the reader learns of it then.
  body.on("error", () => undefined);
  return Readable.from(check(body, expected), { objectMode: false, highWaterMark: 256 * 1024 });
}

async function* check(body: Readable, { digest, sizeBytes, maxSizeBytes }: Expectation): AsyncGenerator<Buffer> {
  const hash = createHash("sha256");
  let length = 0;
  const source = (body as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
  try {
    for (;;) {
      const next = await source.next().catch((cause: unknown) => {
        throw unavailable(`${digest}: the transfer broke off after ${length} bytes`, { temporary: true, cause });
      });
      if (next.done === true) break;
      length += next.value.length;
      if (sizeBytes !== undefined && length > sizeBytes)
        throw new RegistryError(
          "ARTIFACT_DIGEST_MISMATCH",
          `${digest}: longer than the ${sizeBytes} bytes it should have`,
        );
      if (maxSizeBytes !== undefined && length > maxSizeBytes)
        throw new RegistryError("ARTIFACT_TOO_LARGE", `${digest}: more than ${maxSizeBytes} bytes`);
      hash.update(next.value);
      yield next.value;
    }
  } finally {
    body.destroy();
  }
  if (sizeBytes !== undefined && length !== sizeBytes)
    throw new RegistryError("ARTIFACT_DIGEST_MISMATCH", `${digest}: ${length} bytes instead of ${sizeBytes}`);
  if (`sha256:${hash.digest("hex")}` !== digest)
    throw new RegistryError("ARTIFACT_DIGEST_MISMATCH", `${digest}: the content has another digest`);
}
