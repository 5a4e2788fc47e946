import type { Networks } from "@svc/deploy/daemons";
import { Held, holdExclusively } from "@svc/deploy/exclusive";
import { freePorts, type Ports, spareRange } from "@svc/deploy/ports";
import { systemClock, systemRandom } from "@svc/runtime/system";

/** Where one platform listens, and its networks: nobody else is given them until this is disposed. */
export interface Addresses extends AsyncDisposable {
  ports: Ports;
  networks: Networks;
}

/** Beside a platform that runs on this machine already, and what agents in tests of their own have. */
const blocks = { first: 20, count: 190 } as const;
const portsPerBlock = Math.floor((spareRange.last - spareRange.first + 1) / blocks.count);
const attemptsMax = 100;

/**
 * Claims a block of addresses and ports of this machine: test processes start platforms at the same moment, and a port
 * that is free when it is looked at is not listened on before seconds later.
 */
export async function claimAddresses(): Promise<Addresses> {
  for (let attempt = 0; attempt < attemptsMax; attempt += 1) {
    const index = Math.floor(Math.random() * blocks.count);
    const held = await holdExclusively(systemClock, `test addresses ${index}`, 0).catch((error: unknown) => {
      if (error instanceof Held) return null;
      throw error;
    });
    if (held === null) continue;
    const first = spareRange.first + index * portsPerBlock;
    const block = blocks.first + index;
    return {
      ports: await freePorts(systemRandom, { first, last: first + portsPerBlock - 1 }),
      networks: { containers: `10.${block}`, nodes: `127.0.${block}` },
      [Symbol.asyncDispose]: () => held[Symbol.asyncDispose](),
    };
  }
  throw new Error("every block of addresses is claimed");
}
