/**
 * Measures what TLS costs an edge with very many certificates: full handshakes, and those who dial with names that have none. CPU time and
 * memory of the Caddy process, time as one visitor after another sees it. Takes a minute or two.
 *
 * Run: npm run bench -- certificates
 */

import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { connect } from "node:tls";
import { sleep } from "@svc/runtime/sleep";
import { systemClock } from "@svc/runtime/system";
import { openServingFiles } from "../certificates/serving.ts";
import { cpuMicroseconds } from "./bench-cost.ts";
import { aCertificate } from "./certificate.ts";
import { startTestEdge } from "./edge.ts";

const names = 10_000;
const handshakes = 2_000;
const strangers = { perSecond: 1_000, seconds: 5, atOnceMax: 200 };
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

/** Whether there was a certificate for the name. */
async function dial(servername: string): Promise<boolean> {
  const socket = connect({ host, port: Number(port), servername, rejectUnauthorized: false, session: undefined });
  socket.setTimeout(silentMs, () => socket.destroy(new Error("no answer in time")));
  try {
    await once(socket, "secureConnect");
    return true;
  } catch (error) {
    if (error instanceof Error && /alert/.test(error.message)) return false;
    throw error;
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
    if (!(await dial(nameOf((n * 7) % count)))) throw new Error("a name has no certificate");
    tookMs.push(performance.now() - from);
  }
  const cpuMs = ((await cpuMicroseconds(pid)) - before) / handshakes / 1_000;
  tookMs.sort((a, b) => a - b);
  const at = (share: number): number => tookMs[Math.floor(tookMs.length * share)] ?? Number.NaN;
  return { p50Ms: at(0.5), p99Ms: at(0.99), cpuMs, residentMb: await residentMb() };
}

/** Names that nobody has, as many a second as the machine lets them. */
async function dialUnknown(): Promise<{ perSecond: number; cpuMs: number; shown: number }> {
  const total = strangers.perSecond * strangers.seconds;
  const from = performance.now();
  const before = await cpuMicroseconds(pid);
  let [next, shown] = [0, 0];
  const stranger = async () => {
    while (next < total) {
      const n = next++;
      // Not before its moment.
      const earlyMs = from + (n * 1_000) / strangers.perSecond - performance.now();
      if (earlyMs > 0) await sleep(systemClock, earlyMs);
      if (await dial(`stranger-${n}.example`)) shown += 1;
    }
  };
  await Promise.all(Array.from({ length: strangers.atOnceMax }, stranger));
  const tookMs = performance.now() - from;
  const cpuMs = ((await cpuMicroseconds(pid)) - before) / total / 1_000;
  return { perSecond: (total * 1_000) / tookMs, cpuMs, shown };
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
const { perSecond, cpuMs, shown } = await dialUnknown();
// By the cost of each: whether this program dials so many is a matter of the machine.
const cores = (cpuMs * strangers.perSecond) / 1_000;
row(
  "unknown names",
  `${perSecond.toFixed(0)}/s, CPU ${cpuMs.toFixed(2)} ms, ${shown} certificates, ${(await residentMb()).toFixed(0)} MB`,
  cores < 0.5 && shown === 0,
  `< 0.5 cores at 1,000/s (${cores.toFixed(2)}), none`,
);
