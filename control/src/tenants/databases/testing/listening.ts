import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { sleep } from "@svc/runtime/sleep";
import { systemClock } from "@svc/runtime/system";

/** Until a server takes connections at its socket. Throws when it ends before. */
export async function untilListening(child: ChildProcess, socket: string): Promise<void> {
  for (;;) {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error(`the server of ${socket} ended`);
    const probe = connect(socket);
    try {
      await once(probe, "connect");
      return;
    } catch {
      await sleep(systemClock, 25);
    } finally {
      probe.destroy();
    }
  }
}
