import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { run } from "@svc/runtime/command";
import { type Argv, argv, spawnProgram, thisNode } from "@svc/runtime/programs";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { waitFor } from "../testing/wait.ts";

// Two machines with a cable between them: on the other one are a cloud's metadata service, control, somebody's database and
// a host of the internet. Nothing of it touches the network of the machine that the tests run on.

const program = fileURLToPath(new URL("../testing/egress-child.ts", import.meta.url));
const metadata = "169.254.169.254:80";
const control = "10.9.0.2:7443";
const database = "10.9.0.3:5432";
const internet = "203.0.113.5:443";
const all = [metadata, control, database, internet];
const ownPort = "10.9.0.1:9";

let node: ChildProcess;
let others: ChildProcess;

/** A process that holds a network of its own, and ends with this one. */
async function aNetwork(...program: Argv): Promise<ChildProcess> {
  const child = spawnProgram(
    ["setpriv", "--pdeathsig", "KILL", "--", ...argv("unshare", "--net", "--", ...argv(...program))],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  await Promise.race([once(child.stdout, "data"), once(child, "exit")]);
  if (child.exitCode !== null) throw new Error("no network of its own");
  return child;
}

const within = async (network: ChildProcess, ...program: Argv): Promise<string> =>
  (await run(["nsenter", `--net=/proc/${network.pid}/ns/net`, "--", ...argv(...program)])).stdout;

/** Whom a program of the node reaches. */
const reached = async (): Promise<Record<string, boolean>> =>
  JSON.parse(await within(node, thisNode, program, "reach", ...all));

const writeRules = (mode: string, { dir = "/agent-1", server = control, allow = "" } = {}): Promise<string> =>
  within(node, thisNode, program, "rules", mode, dir, server, allow);

beforeAll(async () => {
  const listeners = all.map((address) => address.split(":").map((part) => JSON.stringify(part)));
  const serve = `${listeners.map(([, port]) => `require("node:net").createServer((s) => s.destroy()).listen(Number(${port}), "0.0.0.0");`).join("")} console.log("here")`;
  node = await aNetwork("sh", "-c", "echo here; exec sleep infinity");
  others = await aNetwork(thisNode, "-e", serve);
  await within(node, "ip", "link", "set", "lo", "up");
  await within(node, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", String(others.pid));
  for (const [machine, addresses] of [
    [node, ["10.9.0.1/24"]],
    [others, ["10.9.0.2/24", "10.9.0.3/24", "169.254.169.254/32", "203.0.113.5/32"]],
  ] as const) {
    for (const address of addresses) await within(machine, "ip", "address", "add", address, "dev", "eth0");
    await within(machine, "ip", "link", "set", "eth0", "up");
  }
  await within(node, "ip", "route", "add", "default", "via", "10.9.0.2");
  await waitFor("the cable", async () => Object.values(await reached()).every(Boolean));
});
afterAll(async () => {
  for (const each of [node, others]) {
    each?.kill("SIGKILL");
    if (each !== undefined && each.exitCode === null && each.signalCode === null) await once(each, "exit");
  }
});
beforeEach(async () => {
  await within(node, "iptables", "-F");
});

test("a dedicated node reaches control and the internet, not a cloud's metadata and not the networks around it", async () => {
  await writeRules("closed");
  expect(await reached()).toEqual({ [metadata]: false, [control]: true, [database]: false, [internet]: true });
});

test("what the operator names is reached", async () => {
  await writeRules("closed", { allow: database });
  expect(await reached()).toEqual({ [metadata]: false, [control]: true, [database]: true, [internet]: true });
});

test("a machine with other things to do reaches its networks, and an open one everything", async () => {
  await writeRules("metadata");
  expect(await reached()).toEqual({ [metadata]: false, [control]: true, [database]: true, [internet]: true });
  await writeRules("open");
  expect(await reached()).toEqual({ [metadata]: true, [control]: true, [database]: true, [internet]: true });
});

test("agents that write at the same time take nothing from one another", async () => {
  const turns = Array.from({ length: 6 }, (_, n) =>
    n % 2 === 0
      ? writeRules("closed", { dir: `/agent-${n}`, server: control })
      : writeRules("closed", { dir: `/agent-${n}`, server: "", allow: database }),
  );
  await Promise.all(turns);
  expect(await reached()).toEqual({ [metadata]: false, [control]: true, [database]: true, [internet]: true });
  const chain = await within(node, "iptables", "-S", "SVC-OUTPUT");
  // Each its own server, and each the bridges of its containers.
  expect(chain.match(/ -d .*svc-allow:/g)).toHaveLength(6);
  expect(chain.match(/ -o .*svc-allow:/g)).toHaveLength(6);
  // Writing it again changes nothing, and there is one way into it.
  await writeRules("closed", { dir: "/agent-0" });
  expect(await within(node, "iptables", "-S", "SVC-OUTPUT")).toHaveLength(chain.length);
  expect((await within(node, "iptables", "-S", "OUTPUT")).match(/SVC-OUTPUT/g)).toHaveLength(1);
});

test("a connection of this machine to itself is left alone, whatever address it has", async () => {
  await writeRules("closed");
  // Nobody listens there: what is refused at once was not filtered.
  const before = await within(node, "iptables", "-L", "SVC-OUTPUT", "-v", "-n", "-x");
  await within(node, thisNode, program, "reach", ownPort);
  const rejects = (text: string) => text.split("\n").filter((line) => line.includes("REJECT"));
  expect(rejects(await within(node, "iptables", "-L", "SVC-OUTPUT", "-v", "-n", "-x"))).toEqual(rejects(before));
});
