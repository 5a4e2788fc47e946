import { Writable } from "node:stream";
import { nodeListReply, stripControl } from "@svc/proto";
import { branchName, listDatabases } from "../admin-databases/branches.ts";
import { droppedName, listVolumes, ownerName } from "../admin-databases/volumes.ts";
import { createRun, type Globals } from "../context.ts";
import type { Host } from "../host.ts";
import { createTerminal } from "../terminal.ts";
import type { Ask, Candidate } from "./candidate.ts";

/** Somebody has pressed a key and waits. */
const patienceMs = 2_000;

const globals: Globals = {
  manifest: "svc.yml",
  manifestNamed: false,
  json: true,
  yes: false,
  verbose: false,
  quiet: true,
  noColor: true,
};

/** Words that only the platform knows; none when it does not answer in time, or whoever is logged in may not ask. */
export async function askPlatform(what: Parameters<Ask>[0], host: Host): Promise<Candidate[]> {
  const { clock, random, env, cwd, home, stdin } = host;
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const signal = AbortSignal.any([host.signal, clock.abortAfter(patienceMs)]);
  const terminal = createTerminal({ clock, stdin, stdout: nowhere, stderr: nowhere, env, signal, ...globals });
  const run = createRun({
    clock,
    random,
    env,
    cwd,
    home,
    globals,
    terminal,
    columns: null,
    stdin,
    stdout: nowhere,
    print: () => {},
    signal,
    takeSignals: host.takeSignals,
  });
  try {
    const api = await run.context.api();
    const questions: Record<typeof what, () => Promise<Candidate[]>> = {
      databases: async () =>
        (await listDatabases(api)).map((each) => ({ word: branchName(each), about: `${each.engine}, ${each.status}` })),
      volumes: async () =>
        (await listVolumes(api)).volumes.map((each) => ({ word: each.name, about: `${ownerName(each)}, ${each.why}` })),
      dropped: async () =>
        (await listVolumes(api)).dropped.map((each) => ({ word: droppedName(each) ?? each.id, about: each.engine })),
      nodes: async () => {
        const { nodes } = await api.get("/admin/nodes", nodeListReply);
        return nodes
          .filter(({ status }) => status !== "removed")
          .map(({ name, role, status }) => ({ word: stripControl(name), about: `${role}, ${status}` }));
      },
    };
    return await questions[what]();
  } catch {
    return [];
  } finally {
    await run.close();
  }
}
