/**
 * Measures what TLS costs an edge with very many certificates: full handshakes, and those who dial with names that have none. CPU time and
 * memory of the Caddy process, time as one visitor after another sees it. Takes a minute or two.
 *
 * Run: npm run bench -- certificates
 */

import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { connect } from "node:tls";
import { openServingFiles } from "../certificates/serving.ts";
import { cpuMicroseconds } from "./bench-cost.ts";
import { aCertificate } from "./certificate.ts";
import { createHello, isRefused } from "./client-hello.ts";
import { startTestEdge } from "./edge.ts";

const names = 10_000;
const handshakes = 2_000;
/** Dialled from several addresses, for each of which the machine has some ten thousand ports. */
const strangers = { rounds: 6, each: 10_000, atOnce: 64, addresses: 60, perSecond: 1_000 };
const strangerLength = 32;
const silentMs = 10_000;

await using edge = await startTestEdge({ env: { SVC_EDGE_TLS: "acme" } });
const { pid } = edge.caddy;
const [host = "", port = ""] = edge.https.split(":");
const nameOf = (n: number) => `shop-${n % names}.example`;
// One certificate under all names: Caddy reads and parses what it is given, and does not compare.
const { chain, privateKey } = aCertificate(nameOf(0));
const files = openServingFiles(edge.config.certificatesDir, { dir: 0o750, file: 0o640 });
const place = (from: number, to: number) => {
  for (let n = from; n < to; n += 1) files.put(`${nameOf(n)}.pem`, `${chain.trim()}\n${privateKey.trim()}\n`);
};

/** A whole handshake. */
async function dial(servername: string): Promise<void> {
  const socket = connect({ host, port: Number(port), servername, rejectUnauthorized: false, session: undefined });
  socket.setTimeout(silentMs, () => socket.destroy(new Error("no answer in time")));
  try {
    await once(socket, "secureConnect");
  } finally {
    socket.destroy();
  }
}

async function residentMb(): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) / 1024;
}

/** One after another, each for the next name of the first `count`. */
async function shake(count: number): Promise<{ p50Ms: number; p99Ms: number; cpuMs: number; residentMb: number }> {
  const tookMs: number[] = [];
  const before = await cpuMicroseconds(pid);
  for (let n = 0; n < handshakes; n += 1) {
    const from = performance.now();
    await dial(nameOf((n * 7) % count));
    tookMs.push(performance.now() - from);
  }
  const cpuMs = ((await cpuMicroseconds(pid)) - before) / handshakes / 1_000;
  tookMs.sort((a, b) => a - b);
  const at = (share: number): number => tookMs[Math.floor(tookMs.length * share)] ?? Number.NaN;
  return { p50Ms: at(0.5), p99Ms: at(0.99), cpuMs, residentMb: await residentMb() };
}

interface Strangers {
  perSecond: number;
  cpuMs: number;
  /** Handshakes that went on. */
  shown: number;
  residentMb: number;
  /** What Caddy wrote meanwhile: of its troubles, and of requests. */
  logBytes: number;
}

/** Random names that nobody has, each another one, as many a second as this program dials. */
async function dialUnknown(count: number): Promise<Strangers> {
  const hello = await createHello(strangerLength);
  const target = { host, port: Number(port) };
  const from = performance.now();
  const [before, bytesBefore] = [await cpuMicroseconds(pid), await logBytes()];
  let [next, shown] = [0, 0];
  const stranger = async () => {
    while (next < count) {
      const source = `127.0.0.${10 + (next++ % strangers.addresses)}`;
      const name = `${randomBytes(12).toString("hex")}.example`;
      if (!(await isRefused(target, source, hello(name)))) shown += 1;
    }
  };
  await Promise.all(Array.from({ length: strangers.atOnce }, stranger));
  const perSecond = (count * 1_000) / (performance.now() - from);
  const cpuMs = ((await cpuMicroseconds(pid)) - before) / count / 1_000;
  return { perSecond, cpuMs, shown, residentMb: await residentMb(), logBytes: (await logBytes()) - bytesBefore };
}

async function logBytes(): Promise<number> {
  const inDir = (await readdir(edge.config.trafficDir).catch(() => [])).map((name) =>
    join(edge.config.trafficDir, name),
  );
  const sizes = await Promise.all([edge.caddy.errorsFile, ...inDir].map(async (file) => (await stat(file)).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}

const row = (what: string, found: string, isMet: boolean, aim: string) =>
  console.log(`${what.padEnd(48)} ${found.padEnd(52)} ${isMet ? "met" : "MISSED"}: ${aim}`);
const told = ({ p50Ms, p99Ms, cpuMs, residentMb }: Awaited<ReturnType<typeof shake>>) =>
  `p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms, CPU ${cpuMs.toFixed(2)} ms, ${residentMb.toFixed(0)} MB`;

place(0, 10);
await shake(10);
const few = await shake(10);
place(10, names);
const many = await shake(names);
console.log(`${"full handshakes, 10 certificates".padEnd(48)} ${told(few)}`);
const isGood = many.p50Ms <= 3 && many.cpuMs <= 1.2 && many.residentMb <= few.residentMb * 1.2;
row("full handshakes, 10,000 certificates", told(many), isGood, "p50 <= 3 ms, CPU <= 1.2 ms, memory flat");
const rounds: Strangers[] = [];
for (let n = 0; n < strangers.rounds; n += 1) rounds.push(await dialUnknown(strangers.each));
for (const [n, each] of rounds.entries()) {
  const { perSecond, cpuMs, residentMb, logBytes } = each;
  const text = `${perSecond.toFixed(0)}/s, CPU ${cpuMs.toFixed(3)} ms, ${residentMb.toFixed(0)} MB, log ${logBytes} bytes`;
  // By the cost of each: whether this program dials so many is a matter of the machine.
  const cores = (cpuMs * strangers.perSecond) / 1_000;
  const isCheap = cores < 0.5 && each.shown === 0;
  const total = (n + 1) * strangers.each;
  row(
    `unknown names, ${total}`,
    text,
    isCheap,
    `< 0.5 cores at ${strangers.perSecond}/s (${cores.toFixed(2)}), no certificate`,
  );
}
const grown = (rounds.at(-1)?.residentMb ?? Number.NaN) - (rounds[0]?.residentMb ?? Number.NaN);
const logged = rounds.reduce((sum, each) => sum + each.logBytes, 0);
row(
  "the same, since the first of these",
  `${grown.toFixed(0)} MB more, log ${logged} bytes`,
  grown < 32 && logged < 262_144,
  "< 32 MB, < 256 KB",
);
