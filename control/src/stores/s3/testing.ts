import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { BucketSettings } from "../../settings/settings.ts";

/** What we use of s3rver, which brings no types. */
interface S3rver {
  callback(): Parameters<typeof createServer>[1];
  configureBuckets(): Promise<unknown>;
}
type S3rverClass = new (options: Record<string, unknown>) => S3rver;

export interface TestS3 extends AsyncDisposable {
  /** Of the one bucket there is, with the one key that the server knows. */
  settings: BucketSettings;
  /** Names of all objects, in order. */
  names(): Promise<string[]>;
  /** An object as it lies on the server's disk, behind its back. */
  read(name: string): Promise<Buffer>;
  write(name: string, content: Buffer): Promise<void>;
  /** Nobody answers until `start`. */
  stop(): Promise<void>;
  start(): Promise<void>;
}

const bucket = "svc-offsite";
const key = "S3RVER";
/** What s3rver puts behind the name of an object. */
const contentSuffix = "._S3rver_object";

/** A real server on loopback that speaks S3 and checks signatures (of version 4), with files in a directory of its own. */
export async function startS3(prefix = ""): Promise<TestS3> {
  const directory = await mkdtemp(join(tmpdir(), "svc-s3-"));
  const Program = createRequire(import.meta.url)("@20minutes/s3rver") as S3rverClass;
  const program = new Program({ directory, silent: true, vhostBuckets: false, configureBuckets: [{ name: bucket }] });
  await program.configureBuckets();
  let server: Server | null = null;
  let port = 0;
  const start = async () => {
    server = createServer(program.callback());
    const started = server;
    await new Promise<void>((resolve) => started.listen(port, "127.0.0.1", resolve));
    const address = started.address();
    if (typeof address === "object" && address !== null) port = address.port;
  };
  const stop = async () => {
    const stopped = server;
    server = null;
    stopped?.closeAllConnections();
    await new Promise<void>((resolve) => (stopped === null ? resolve() : stopped.close(() => resolve())));
  };
  await start();
  const fileOf = (name: string) => join(directory, bucket, `${name}${contentSuffix}`);
  return {
    settings: {
      ...{ endpoint: `http://127.0.0.1:${port}`, bucket, region: "eu-test-1", prefix },
      ...{ accessKeyId: key, secretAccessKey: key },
    },
    async names() {
      const found = await readdir(join(directory, bucket), { recursive: true });
      return found
        .filter((name) => name.endsWith(contentSuffix))
        .map((name) => name.slice(0, -contentSuffix.length))
        .toSorted();
    },
    read: (name) => readFile(fileOf(name)),
    write: (name, content) => writeFile(fileOf(name), content),
    stop,
    start,
    async [Symbol.asyncDispose]() {
      await stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
