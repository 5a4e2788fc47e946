import { request } from "node:http";
import { performServerHandshake, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import type { Duplex } from "node:stream";
import { BinaryReader, BinaryWriter } from "@bufbuild/protobuf/wire";
import type { Random } from "@svc/runtime/random";
import { EngineError } from "./errors.ts";

/** The line back from the engine's builder: what a build may ask its client for. */
export interface BuildSession {
  /** Names the session in the request that starts the build. */
  readonly id: string;
  /** Ends the line. A build that still runs on it is given up by the engine. */
  close(): void;
}

const getSecret = "/moby.buildkit.secrets.v1.Secrets/GetSecret";
const checkHealth = "/grpc.health.v1.Health/Check";
const notFound = "5";
const unimplemented = "12";
/** Larger requests are none that a builder makes. */
const requestMaxBytes = 64 * 1024;

/**
 * Opens a session of BuildKit on the engine's socket. It answers with `secrets` and with nothing else: no files
 * of this machine, no credentials. What a build reads from it is in no layer and in no history.
 */
export async function openBuildSession(
  random: Random,
  socketPath: string,
  secrets: ReadonlyMap<string, Buffer>,
  signal: AbortSignal,
): Promise<BuildSession> {
  const id = random.uuid();
  const socket = await upgrade(socketPath, id, signal);
  const session = performServerHandshake(socket);
  session.on("stream", (stream, headers) => answer(stream, String(headers[":path"]), secrets));
  // The engine ends it when the build is over, and so do we: whoever is first, nothing is left to report.
  session.on("error", () => {});
  return { id, close: () => close(session, socket) };
}

function close(session: ServerHttp2Session, socket: Duplex): void {
  session.destroy();
  socket.destroy();
}

function upgrade(socketPath: string, id: string, signal: AbortSignal): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const outgoing = request({
      socketPath,
      method: "POST",
      path: "/session",
      signal,
      timeout: 15_000,
      headers: {
        Connection: "Upgrade",
        Upgrade: "h2c",
        "X-Docker-Expose-Session-Uuid": id,
        "X-Docker-Expose-Session-Name": "svc",
        "X-Docker-Expose-Session-Grpc-Method": getSecret,
      },
    });
    const fail = (why: string, cause?: unknown): void => {
      outgoing.destroy();
      reject(signal.aborted ? signal.reason : new EngineError("unreachable", `open build session: ${why}`, { cause }));
    };
    outgoing.once("upgrade", (_reply, socket, head) => {
      socket.on("error", () => {});
      if (head.length > 0) socket.unshift(head);
      // From here on the build's own signal decides, not that of a request which is over.
      resolve(socket);
    });
    outgoing.once("response", (reply) => {
      reply.resume();
      fail(`the engine answered ${reply.statusCode}`);
    });
    outgoing.once("timeout", () => fail("the engine did not answer in 15 s"));
    outgoing.once("error", (cause) => fail(cause.message, cause));
    outgoing.end();
  });
}

function answer(stream: ServerHttp2Stream, path: string, secrets: ReadonlyMap<string, Buffer>): void {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  stream.on("error", () => {});
  stream.on("data", (chunk: Buffer) => {
    sizeBytes += chunk.length;
    if (sizeBytes > requestMaxBytes) stream.destroy();
    else chunks.push(chunk);
  });
  stream.on("end", () => {
    // Whoever asked may have called it off in the same breath.
    if (stream.destroyed || stream.closed) return;
    try {
      respond(stream, path, Buffer.concat(chunks), secrets);
    } catch {
      // What cannot be read, or answered any more, has to end nothing but itself.
      stream.destroy();
    }
  });
}

function respond(stream: ServerHttp2Stream, path: string, request: Buffer, secrets: ReadonlyMap<string, Buffer>): void {
  const secret = path === getSecret ? secrets.get(readSecretId(request)) : undefined;
  // SERVING. The engine drops a session that does not say so every second.
  if (path === checkHealth) reply(stream, new BinaryWriter().uint32(8).int32(1).finish());
  else if (secret !== undefined) reply(stream, new BinaryWriter().uint32(10).bytes(secret).finish());
  else refuse(stream, path === getSecret ? notFound : unimplemented);
}

/** The first field of a request behind the five bytes in front of every message. */
function readSecretId(bytes: Buffer): string {
  const reader = new BinaryReader(bytes.subarray(5));
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (field === 1) return reader.string();
    reader.skip(wireType, field);
  }
  return "";
}

function reply(stream: ServerHttp2Stream, message: Uint8Array): void {
  const head = Buffer.alloc(5);
  head.writeUInt32BE(message.length, 1);
  stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
  stream.once("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
  stream.end(Buffer.concat([head, message]));
}

function refuse(stream: ServerHttp2Stream, status: string): void {
  stream.respond({ ":status": 200, "content-type": "application/grpc", "grpc-status": status }, { endStream: true });
}
