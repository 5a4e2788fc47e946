import { connect } from "node:net";
import { systemClock } from "@svc/runtime/system";
import { createLog } from "../log.ts";
import { parseEgressTarget } from "../network/egress.ts";
import { createHostEgress } from "../network/host-egress.ts";

// A program of a machine: writes the rules of an agent there (`rules`), or tells whom it can reach (`reach`).

const [task, ...args] = process.argv.slice(2);

if (task === "rules") {
  const [mode, dir = "", server = "", allow = ""] = args;
  const egress = createHostEgress({
    clock: systemClock,
    mode: mode === "metadata" || mode === "open" ? mode : "closed",
    allow: allow.split(",").flatMap((text) => parseEgressTarget(text) ?? []),
    servers: () => [server].filter(Boolean),
    dir,
    buildBridge: null,
    log: createLog("error"),
  });
  await egress.write("nameserver 10.9.0.53\n");
} else {
  const results = await Promise.all(args.map(async (address) => [address, await isReached(address)] as const));
  process.stdout.write(JSON.stringify(Object.fromEntries(results)));
}

function isReached(address: string): Promise<boolean> {
  const at = address.lastIndexOf(":");
  const socket = connect({ host: address.slice(0, at), port: Number(address.slice(at + 1)) });
  return new Promise((resolve) => {
    socket.once("connect", () => resolve(true));
    socket.once("error", () => resolve(false));
    socket.setTimeout(10_000, () => resolve(false));
  }).then((reached) => {
    socket.destroy();
    return reached === true;
  });
}
