import { Duplex } from "node:stream";
import { createManualClock } from "@svc/runtime/testing/manual-clock";
import { fixedRandom } from "@svc/runtime/testing/random";
import { expect, test } from "vitest";
import type { Db } from "../../stores/db/pool.ts";
import { LinkError } from "../sessions/errors.ts";
import type { TunnelCall } from "./bytes.ts";
import { createTunnels } from "./tunnels.ts";

/** Nobody is told of a wish: the database is away. */
const away = {} as Db;
const tunnelId = "00000000-0000-4000-8000-000000000001";
const n1 = { id: "n1", role: "node", incarnation: 1 } as const;
const answer = { $typeName: "svc.node.v1.TunnelAnswer", tunnelId, refusedBecause: "" } as const;
const aCall = () =>
  new Duplex({ objectMode: true, read() {}, write: (_, __, done) => done() }) as unknown as TunnelCall;

test("a call that ended before it is taken is no answer: the node's next one is", async () => {
  const tunnels = createTunnels({ clock: createManualClock(), random: fixedRandom(), db: away });
  const opening = tunnels.open({ nodeId: "n1", databaseId: "d1", epoch: "7" }, new AbortController().signal);
  const ended = aCall();
  ended.destroy();
  expect(() => tunnels.accept(n1, answer, ended)).toThrow(LinkError);
  const call = aCall();
  tunnels.accept(n1, answer, call);
  const stream = await opening;
  expect(stream.destroyed).toBe(false);
  call.destroy();
  stream.destroy();
});
