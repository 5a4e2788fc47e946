import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { provideCaddy } from "@svc/deploy/caddy";
import { bootConfigCommand, type EdgeSite, routerSpec } from "@svc/deploy/daemons";
import { createProgram, type Program } from "@svc/deploy/program";
import { run } from "@svc/runtime/command";
import { systemClock } from "@svc/runtime/system";
import type { Cluster } from "../cluster.ts";

/** An edge beside the one that the platform brought along, at an address of its own and the same ports. */
export interface SecondEdge extends AsyncDisposable {
  address: string;
  caddy: Program;
  router: Program;
}

/** Nobody's of a platform's nodes, which begin with 1. */
const addressEnd = 102;

/** Has another edge join, as an operator does: with a token of its own. It serves nothing yet when this returns. */
export async function addEdge({ platform, networks, cli }: Cluster, settings: Record<string, string>) {
  const { layout, ports } = platform;
  const [dir, inMemory] = [join(layout.dir, "edge-2"), join(layout.runtime, "edge-2")];
  const site: EdgeSite = {
    ...{ name: "router-2", address: `${networks.nodes}.${addressEnd}`, router: join(dir, "router") },
    ...{ routeTable: join(inMemory, "table"), caddyAdmin: join(inMemory, "caddy.sock"), tokenFile: `${dir}.token` },
  };
  for (const each of [dir, site.routeTable]) await mkdir(each, { recursive: true, mode: 0o700 });
  const made = ["admin", "nodes", "bootstrap-token", "create", "--role", "edge", "--file", site.tokenFile];
  const { exitCode, stderr } = await cli(made);
  if (exitCode !== 0) throw new Error(`no token for an edge: ${stderr}`);

  await using stack = new AsyncDisposableStack();
  const start = async (spec: Parameters<typeof createProgram>[1]): Promise<Program> => {
    const program = createProgram(systemClock, spec, layout, () => {});
    stack.defer(() => program.stop());
    await program.start();
    return program;
  };
  const facts = { layout, ports, env: process.env };
  const boot = bootConfigCommand(facts, site);
  const { stdout: bootConfig } = await run(boot.argv, { env: boot.env });
  const { spec } = await provideCaddy({
    ...{ dir: join(dir, "caddy"), adminSocket: site.caddyAdmin, bootConfig, env: process.env },
  });
  const caddy = await start({ ...spec, name: "caddy-2" });
  const usual = routerSpec(facts, site);
  const router = await start({ ...usual, env: { ...usual.env, ...settings } });
  const started = stack.move();
  const edge: SecondEdge = {
    ...{ address: site.address, caddy, router },
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  };
  return edge;
}
