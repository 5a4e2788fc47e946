import type { ServerDuplexStream } from "@grpc/grpc-js";
import type { DaemonRole } from "@svc/proto/daemon-identity";
import { grpcError, type LinkError } from "./errors.ts";
import { type Peer, peerAddress, peerIdentity } from "./peer.ts";

/** One daemon's call as a session has it: messages both ways, and who is at the other end. */
export interface DaemonCall<Req, Res> {
  /** Who makes it, by its certificate alone. @throws LinkError UNAUTHENTICATED */
  identify(wanted: { clusterId: string; role: DaemonRole; now: Date }): Peer;
  /** The address at the other end; "" when it is not known. */
  address(): string;
  /** Where messages go from `resume` on, in order, and what hears of its end, however that came about. */
  listen(on: { message(message: Req): void; ended(): void }): void;
  /** No message comes until `resume`: the transport holds the sender back. */
  pause(): void;
  resume(): void;
  /** `taken` is called once the transport has it. */
  write(message: Res, taken: () => void): void;
  /** Ends it in order, or with an error for the daemon. What was written before still goes out. */
  end(error?: LinkError): void;
}

/** A call of grpc-js. */
export const grpcCall = <Req, Res>(call: ServerDuplexStream<Req, Res>): DaemonCall<Req, Res> => ({
  identify: (wanted) => peerIdentity(call, wanted),
  address: () => peerAddress(call),
  listen({ message, ended }) {
    call.on("data", message);
    for (const event of ["end", "cancelled", "close", "error"]) call.on(event, ended);
    call.pause();
  },
  pause: () => void call.pause(),
  resume: () => void call.resume(),
  write: (message, taken) => void call.write(message, taken),
  end(error) {
    if (error === undefined) call.end();
    else call.emit("error", grpcError(error));
    // Nothing of what still comes is wanted, but it must be read, or the connection's window fills up.
    call.resume();
  },
});
