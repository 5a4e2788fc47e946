import { connect, type Socket } from "node:net";
import { performance } from "node:perf_hooks";

const headEnd = Buffer.from("\r\n\r\n");

export interface LoopResult {
  /** Requests that were answered. */
  count: number;
  requestsPerSecond: number;
  /** Of single requests, in ms. */
  p50: number;
  p99: number;
}

/**
 * One connection per request text, each sending its own again and again, the next as soon as the last was answered.
 * Reads of an answer only what it must, so that most of the processor is left to the server. Throws for any answer
 * but 200.
 */
export async function closedLoop(options: {
  host: string;
  port: number;
  requests: readonly string[];
  durationMs: number;
}): Promise<LoopResult> {
  const { host, port, requests, durationMs } = options;
  const latencies: number[] = [];
  const startedAt = performance.now();
  const endsAt = startedAt + durationMs;
  await Promise.all(
    requests.map((text) => loop(connect({ host, port, noDelay: true }), Buffer.from(text), endsAt, latencies)),
  );
  const elapsedMs = performance.now() - startedAt;
  latencies.sort((a, b) => a - b);
  const at = (share: number) => latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * share))] ?? 0;
  return {
    count: latencies.length,
    requestsPerSecond: (latencies.length / elapsedMs) * 1000,
    p50: at(0.5),
    p99: at(0.99),
  };
}

function loop(socket: Socket, request: Buffer, endsAt: number, latencies: number[]): Promise<void> {
  return new Promise((resolve, reject) => {
    let sentAt = 0;
    let answer: Buffer = Buffer.alloc(0);
    let length: number | null = null;
    const send = () => {
      sentAt = performance.now();
      if (sentAt >= endsAt) return socket.end(resolve);
      answer = Buffer.alloc(0);
      length = null;
      return socket.write(request);
    };
    socket.once("connect", send).once("error", reject);
    socket.once("close", () => reject(new Error("the server closed the connection")));
    socket.on("data", (chunk) => {
      answer = answer.length === 0 ? chunk : Buffer.concat([answer, chunk]);
      length ??= lengthOf(answer);
      if (length === null || answer.length < length) return;
      if (answer[9] !== 0x32) return void socket.destroy(new Error(answer.toString("latin1")));
      latencies.push(performance.now() - sentAt);
      send();
    });
  });
}

/** Bytes of the whole answer; null while its head is not complete. */
function lengthOf(answer: Buffer): number | null {
  const end = answer.indexOf(headEnd);
  if (end < 0) return null;
  const [, length] = /\r\ncontent-length: (\d+)/i.exec(answer.toString("latin1", 0, end)) ?? [];
  if (length === undefined) throw new Error("an answer without a length");
  return end + headEnd.length + Number(length);
}
