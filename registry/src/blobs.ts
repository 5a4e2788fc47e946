import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import type { Timer } from "@svc/runtime/clock";
import { digestOf, verified } from "./digest.ts";
import { RegistryError, refused, unavailable } from "./errors.ts";
import { blobPath, repositoryPath } from "./paths.ts";
import { inPieces } from "./pieces.ts";
import { type Answer, type Call, discard, type Transport } from "./transport.ts";

/** What was stored. */
export interface Stored {
  digest: string;
  sizeBytes: number;
}

export interface TransferOptions {
  signal?: AbortSignal | undefined;
}
export type PushOptions = TransferOptions & {
  maxSizeBytes?: number | undefined;
  /** What the content is known to be. It is not hashed again: the source fails unless it is that, and the registry checks too. */
  digest?: string | undefined;
};
export type PullOptions = TransferOptions & {
  sizeBytes?: number | undefined;
  maxSizeBytes?: number | undefined;
  /** Of this transfer alone; the client's own by default. */
  transferTimeoutMs?: number | undefined;
};

// One piece is held in memory, so that it can be sent again after a broken connection.
const pieceBytes = 4 * 1024 * 1024;
const attemptsMax = 3;
/** For the last word about an upload that is broken off. */
const goodbyeMs = 5_000;

/** `signal`, and the end of the time that one transfer may take. */
export const bounded = (
  transport: Transport,
  signal: AbortSignal | undefined,
  timeoutMs: number = transport.transferTimeoutMs,
): AbortSignal => {
  const deadline = transport.clock.abortAfter(timeoutMs);
  return signal === undefined ? deadline : AbortSignal.any([signal, deadline]);
};

export const hasBlob = async (
  transport: Transport,
  repository: string,
  digest: string,
  options?: TransferOptions,
): Promise<boolean> => (await lookForBlob(transport, repository, digest, options)) !== null;

/** Bytes of a blob, as the registry has it; null when it has none. */
export async function sizeOfBlob(
  transport: Transport,
  repository: string,
  digest: string,
  options?: TransferOptions,
): Promise<number | null> {
  const answer = await lookForBlob(transport, repository, digest, options);
  return answer === null ? null : lengthOf(answer, `look for ${digest} in ${repository}`);
}

async function lookForBlob(
  transport: Transport,
  repository: string,
  digest: string,
  { signal }: TransferOptions = {},
): Promise<Answer | null> {
  const answer = await transport.send({
    method: "HEAD",
    path: blobPath(repository, digest),
    repeatable: true,
    redirects: true,
    signal,
    doing: `look for ${digest} in ${repository}`,
  });
  await discard(answer);
  if (answer.statusCode === 404) return null;
  if (answer.statusCode !== 200) throw refused(`look for ${digest} in ${repository}`, answer.statusCode);
  return answer;
}

/** How many bytes an answer is of, or would be. */
export function lengthOf({ headers }: Answer, doing: string): number {
  const length = Number(headers["content-length"] ?? Number.NaN);
  if (!Number.isSafeInteger(length)) throw unavailable(`${doing}: the registry tells no size`);
  return length;
}

/**
 * Makes a blob of another repository of the same registry this one's too, without moving a byte. False when the
 * registry does not do that, or the other repository has no such blob.
 */
export async function mountBlob(
  transport: Transport,
  repository: string,
  digest: string,
  from: string,
  { signal }: TransferOptions = {},
): Promise<boolean> {
  // Both names are checked before they become part of an address.
  blobPath(from, digest);
  const doing = `mount ${digest} of ${from} into ${repository}`;
  const path = `${repositoryPath(repository)}/blobs/uploads/?${new URLSearchParams({ mount: digest, from })}`;
  const answer = await beginUpload(transport, path, doing, signal);
  if (answer.statusCode === 201) return true;
  if (answer.statusCode !== 202) throw refused(doing, answer.statusCode);
  // It began an upload instead, which nobody will go on with.
  await Upload.resume(
    transport,
    repository,
    bounded(transport, signal),
    locationOf(answer, transport.origin, doing),
  ).abandon();
  return false;
}

/**
 * The blob as a stream that errors unless it ends with exactly the bytes of `digest` (see `verified`).
 * A declared length over `maxSizeBytes` is refused before anything is read.
 */
export async function pullBlob(
  transport: Transport,
  repository: string,
  digest: string,
  options: PullOptions = {},
): Promise<Readable> {
  const doing = `pull ${digest} from ${repository}`;
  const answer = await transport.send({
    method: "GET",
    path: blobPath(repository, digest),
    repeatable: true,
    redirects: true,
    signal: bounded(transport, options.signal, options.transferTimeoutMs),
    doing,
  });
  if (answer.statusCode !== 200) {
    await discard(answer);
    if (answer.statusCode === 404) throw new RegistryError("ARTIFACT_NOT_FOUND", `${doing}: not there`);
    throw refused(doing, answer.statusCode);
  }
  const declared = Number(answer.headers["content-length"] ?? Number.NaN);
  if (options.maxSizeBytes !== undefined && declared > options.maxSizeBytes) {
    // Destroying it makes it fail, which nobody else is listening for.
    answer.body.on("error", () => {}).destroy();
    throw new RegistryError("ARTIFACT_TOO_LARGE", `${doing}: ${declared} bytes, more than ${options.maxSizeBytes}`);
  }
  return verified(answer.body, { digest, sizeBytes: options.sizeBytes, maxSizeBytes: options.maxSizeBytes });
}

/**
 * What to store. A function opens the content anew, so that a push that broke off can be tried again from
 * the start; so can a buffer. A stream can be read only once: its failure is the caller's to deal with.
 */
export type Content = Readable | Buffer | (() => Readable);

/** Stores `content`; its digest is computed on the way. A stream is sent in pieces, one in memory at a time. */
export async function pushBlob(
  transport: Transport,
  repository: string,
  content: Content,
  options: PushOptions = {},
): Promise<Stored> {
  if (Buffer.isBuffer(content)) {
    const digest = digestOf(content);
    if (await hasBlob(transport, repository, digest, options)) return { digest, sizeBytes: content.length };
  }
  for (let attempt = 1; ; attempt++) {
    const source = typeof content === "function" ? content() : content;
    try {
      return await pushOnce(transport, repository, source, options);
    } catch (error) {
      const again = !(content instanceof Readable) && error instanceof RegistryError && error.temporary;
      if (!again || attempt === attemptsMax) throw error;
    } finally {
      if (source instanceof Readable) source.destroy();
    }
  }
}

async function pushOnce(
  transport: Transport,
  repository: string,
  content: Readable | Buffer,
  { signal, maxSizeBytes, digest: known }: PushOptions,
): Promise<Stored> {
  const upload = await Upload.start(transport, repository, bounded(transport, signal));
  const hash = createHash("sha256");
  let sizeBytes = 0;
  try {
    for await (const piece of inPieces(content, pieceBytes)) {
      sizeBytes += piece.length;
      if (maxSizeBytes !== undefined && sizeBytes > maxSizeBytes)
        throw new RegistryError("ARTIFACT_TOO_LARGE", `push to ${repository}: more than ${maxSizeBytes} bytes`);
      if (known === undefined) hash.update(piece);
      await upload.append(piece);
    }
    const digest = known ?? `sha256:${hash.digest("hex")}`;
    await upload.finish(digest);
    return { digest, sizeBytes };
  } catch (error) {
    await upload.abandon();
    throw error;
  }
}

/**
 * Asks for an upload, which only its answer names: whoever breaks off waits for that a little longer, or the registry
 * would keep what nobody can end.
 */
async function beginUpload(
  transport: Transport,
  path: string,
  doing: string,
  signal: AbortSignal | undefined,
): Promise<Answer> {
  signal?.throwIfAborted();
  const brokenOff = new AbortController();
  let waiting: Timer | undefined;
  const breakOff = () => {
    waiting = transport.clock.after(goodbyeMs, () => brokenOff.abort(signal?.reason));
  };
  signal?.addEventListener("abort", breakOff, { once: true });
  try {
    const answer = await transport.send({ method: "POST", path, repeatable: true, signal: brokenOff.signal, doing });
    await discard(answer);
    return answer;
  } finally {
    signal?.removeEventListener("abort", breakOff);
    waiting?.[Symbol.dispose]();
  }
}

/**
 * One upload session. It cannot be taken up after a lost answer: the reference registry forgets a session
 * whose length differs from what its signed location says.
 */
class Upload {
  #offset = 0;
  #location: string;
  readonly #transport: Transport;
  readonly #repository: string;
  readonly #signal: AbortSignal;

  private constructor(transport: Transport, repository: string, signal: AbortSignal, location: string) {
    this.#transport = transport;
    this.#repository = repository;
    this.#signal = signal;
    this.#location = location;
  }

  static resume(transport: Transport, repository: string, signal: AbortSignal, location: string): Upload {
    return new Upload(transport, repository, signal, location);
  }

  static async start(transport: Transport, repository: string, signal: AbortSignal): Promise<Upload> {
    const doing = `push to ${repository}`;
    const answer = await beginUpload(transport, `${repositoryPath(repository)}/blobs/uploads/`, doing, signal);
    if (answer.statusCode !== 202) throw refused(doing, answer.statusCode);
    return new Upload(transport, repository, signal, locationOf(answer, transport.origin, doing));
  }

  async append(piece: Buffer): Promise<void> {
    const end = this.#offset + piece.length;
    const headers = {
      "content-type": "application/octet-stream",
      "content-range": `${this.#offset}-${end - 1}`,
      "content-length": String(piece.length),
    };
    const answer = await this.#send({ method: "PATCH", path: this.#location, headers, body: piece });
    if (answer.statusCode !== 202) throw refused(this.#doing, answer.statusCode);
    this.#location = locationOf(answer, this.#transport.origin, this.#doing);
    this.#offset = end;
  }

  async finish(digest: string): Promise<void> {
    const url = new URL(this.#location);
    url.searchParams.set("digest", digest);
    try {
      const answer = await this.#send({ method: "PUT", path: url.href, headers: { "content-length": "0" } });
      if (answer.statusCode !== 201) throw refused(this.#doing, answer.statusCode);
    } catch (error) {
      // A lost answer says nothing about the blob, and neither does a refusal when somebody pushed the same one at
      // the same moment: some registries let only the first of them finish.
      if (!(await hasBlob(this.#transport, this.#repository, digest))) throw error;
    }
  }

  /** Frees what the registry keeps of an upload that will not be finished. Best effort. */
  async abandon(): Promise<void> {
    const call = { method: "DELETE", path: this.#location, doing: this.#doing } as const;
    const signal = this.#transport.clock.abortAfter(goodbyeMs);
    await this.#transport.send({ ...call, signal }).then(discard, () => undefined);
  }

  get #doing(): string {
    return `push to ${this.#repository}`;
  }

  async #send(call: Omit<Call, "doing" | "signal">): Promise<Answer> {
    const answer = await this.#transport.send({ ...call, signal: this.#signal, doing: this.#doing });
    await discard(answer);
    return answer;
  }
}

/** Where to go on with an upload. Never another host: the bytes and the credential would follow. */
function locationOf(answer: Answer, origin: URL, doing: string): string {
  const { location } = answer.headers;
  const url = typeof location === "string" ? URL.parse(location, origin.href) : null;
  if (url === null || url.host !== origin.host) throw unavailable(`${doing}: the registry sends uploads elsewhere`);
  // A registry behind a proxy may not know that it is reached over https.
  return `${origin.origin}${url.pathname}${url.search}`;
}
