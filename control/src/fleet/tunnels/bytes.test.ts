import { Duplex } from "node:stream";
import { expect, test } from "vitest";
import { bytesOf, type TunnelCall } from "./bytes.ts";

/** A call over which the node has said all that it says, and of which nothing that is written ever arrives. */
const aStuckCall = () =>
  new Duplex({
    objectMode: true,
    read() {
      this.push(null);
    },
    write() {},
  }) as unknown as TunnelCall;

const closing = (stream: Duplex) => new Promise<void>((resolve) => void stream.once("close", resolve));

test("a tunnel that breaks while nobody listens ends no process", async () => {
  const call = aStuckCall();
  const stream = bytesOf(call);
  const closed = closing(stream);
  call.emit("cancelled");
  await closed;
  expect(stream.errored?.message).toBe("the tunnel broke");
});

test("a tunnel whose node has ended is closed with the call, whatever is still to be written", async () => {
  const call = aStuckCall();
  const stream = bytesOf(call);
  const closed = closing(stream);
  await new Promise<void>((resolve) => void stream.resume().once("end", resolve));
  call.emit("cancelled");
  await closed;
});
