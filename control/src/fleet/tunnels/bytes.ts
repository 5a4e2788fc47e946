import { Duplex } from "node:stream";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { ServerDuplexStream } from "@grpc/grpc-js";
import type { TunnelRequest, TunnelResponseSchema } from "@svc/proto/node";
import { grpcError, LinkError } from "../sessions/errors.ts";

/** A node's call, after it has proven who it is. */
export type TunnelCall = ServerDuplexStream<TunnelRequest, MessageInitShape<typeof TunnelResponseSchema>>;

const pieceBytes = 64 * 1024;

/**
 * The bytes of a tunnel. Either side may be closed alone, as with a socket; destroying it ends the call. Nothing is read
 * ahead of the reader, and a write is done when the transport has taken it.
 */
export function bytesOf(call: TunnelCall): Duplex {
  const stream = new Duplex({
    allowHalfOpen: false,
    read: () => void call.resume(),
    write(chunk: Buffer, _encoding, done) {
      const send = (at: number): void => {
        if (at >= chunk.length) done();
        else {
          const piece = { data: chunk.subarray(at, at + pieceBytes) };
          call.write(piece, (error?: Error | null) => (error ? done(error) : send(at + pieceBytes)));
        }
      };
      send(0);
    },
    final(done) {
      // The call would be over with its own end, and with it what the server still says.
      call.write({ end: true }, () => done());
    },
    destroy(error, done) {
      if (error === null) call.end();
      else call.emit("error", grpcError(new LinkError("UNAVAILABLE", "the tunnel was given up")));
      // What still comes is wanted by nobody, but must be read for the call to end.
      call.resume();
      done(error);
    },
  });
  // Its user sees what it means when reading or writing; without a listener it would end this process.
  stream.on("error", () => {});
  // Also after the node's own end: of what is still being written grpc-js says nothing any more.
  const cut = () => void stream.destroy(stream.readableEnded ? undefined : new Error("the tunnel broke"));
  call.on("data", ({ message }) => {
    if (message.case === "data" && !stream.destroyed && !stream.push(message.value)) call.pause();
  });
  call.on("end", () => stream.push(null));
  call.on("cancelled", cut);
  call.on("close", cut);
  call.on("error", cut);
  return stream;
}
