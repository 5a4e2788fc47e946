import type { Duplex } from "node:stream";

/** A stream that is there already, as drivers want a socket that they connect first. */
export function asSocket(line: Duplex): Duplex {
  const self = () => line;
  return Object.assign(line, {
    connect() {
      process.nextTick(() => line.emit("connect"));
      return line;
    },
    ...{ setNoDelay: self, setKeepAlive: self, ref: self, unref: self },
  });
}
