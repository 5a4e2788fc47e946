import type { Kernel, Process } from "../kernel/kernel.ts";

/** What both kinds of session are made of: a case and its value. */
export interface Message {
  case: string;
  value: unknown;
}

/** A stream as a daemon has it. */
export interface Stream {
  send(message: Message): void;
  close(): void;
}

/** What a daemon hears of one. */
export interface StreamEvents {
  message(message: Message): void;
  closed(): void;
}

/** What goes wrong on the network, at the moment. */
export interface NetworkTrouble {
  /** Share of messages that take long. */
  slowShare: number;
  /** Share of messages that arrive twice. */
  duplicateShare: number;
}

/** One side of a connection. */
export interface Side {
  process: Process;
  life: number;
  receive(message: unknown): void;
  /** The other side, or something on the way, has ended it. */
  closed(): void;
}

/** Paths between machines: each direction of a pair may be closed for a while. */
export class Network {
  private readonly closed = new Map<string, number>();
  /** Sides that read slowly, until a moment. */
  readonly slowUntilMs = new Map<string, { untilMs: number; byMs: number }>();

  readonly kernel: Kernel;
  readonly trouble: NetworkTrouble;

  constructor(kernel: Kernel, trouble: NetworkTrouble) {
    this.kernel = kernel;
    this.trouble = trouble;
  }

  /** Nothing passes from one to the other for a while; what was sent is sent again after it. */
  close(from: string, to: string, forMs: number): void {
    this.closed.set(`${from}>${to}`, this.kernel.nowMs + forMs);
  }

  heal(): void {
    this.closed.clear();
    this.slowUntilMs.clear();
  }

  openAtMs(from: string, to: string): number {
    return this.closed.get(`${from}>${to}`) ?? 0;
  }
}

/** TCP gives up a segment that is not acknowledged for about this long, given how our connections are kept alive. */
const giveUpMs = 25_000;

/** One connection: messages of each direction arrive in order, or it breaks and none comes any more. */
export class Connection {
  isOpen = true;
  private lastMs = { forth: 0, back: 0 };
  /** When the oldest message that the other side has not read was sent, by direction. */
  readonly unread = { forth: [] as number[], back: [] as number[] };

  private readonly network: Network;
  readonly client: Side;
  readonly server: Side;

  constructor(network: Network, client: Side, server: Side) {
    this.network = network;
    this.client = client;
    this.server = server;
  }

  private ends(direction: "forth" | "back"): { from: Side; to: Side } {
    return direction === "forth" ? { from: this.client, to: this.server } : { from: this.server, to: this.client };
  }

  /** `taken` is called when the other side has read it. */
  send(direction: "forth" | "back", message: unknown, taken: () => void = () => {}): void {
    if (!this.isOpen) return;
    const { network } = this;
    const { kernel } = network;
    const { from, to } = this.ends(direction);
    const { random } = from.process;
    const openAtMs = network.openAtMs(from.process.id, to.process.id);
    if (openAtMs - kernel.nowMs > giveUpMs) {
      // Nobody hears of it: the sender's own deadlines have to.
      kernel.at(giveUpMs, "give up", () => this.break(true));
      return;
    }
    const slow = network.slowUntilMs.get(to.process.id);
    const slowMs = slow !== undefined && kernel.nowMs < slow.untilMs ? slow.byMs : 0;
    const travelMs = random.chance(network.trouble.slowShare) ? random.between(30, 1_500) : random.between(0.2, 4);
    const readMs = Math.max(kernel.nowMs + travelMs, openAtMs + travelMs, this.lastMs[direction]) + slowMs;
    this.lastMs[direction] = readMs;
    const unread = this.unread[direction];
    unread.push(kernel.nowMs);
    const times = random.chance(network.trouble.duplicateShare) ? 2 : 1;
    kernel.at(
      readMs - kernel.nowMs,
      "message",
      () => {
        unread.shift();
        if (from.life === from.process.life) taken();
        for (let time = 0; time < times; time += 1) if (this.isOpen && to.life === to.process.life) to.receive(message);
      },
      to.process,
    );
  }

  /** For how long the oldest message to that side has not been read. */
  stuckMs(direction: "forth" | "back"): number {
    const oldest = this.unread[direction][0];
    return oldest === undefined ? 0 : this.network.kernel.nowMs - oldest;
  }

  /** Ends it; `isNoticed` false: as when a cable is cut, both sides have to find out. */
  break(isNoticed: boolean, except: Side | null = null): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    if (!isNoticed) return;
    for (const side of [this.client, this.server]) {
      if (side === except || side.life !== side.process.life) continue;
      this.network.kernel.at(1, "closed", () => side.closed(), side.process);
    }
  }

  /** One side ends it in order: what it sent before still arrives. */
  close(by: Side): void {
    if (!this.isOpen) return;
    const other = by === this.client ? this.server : this.client;
    const direction = by === this.client ? "forth" : "back";
    const { kernel } = this.network;
    const openAtMs = this.network.openAtMs(by.process.id, other.process.id);
    const delayMs = Math.max(this.lastMs[direction], openAtMs, kernel.nowMs) - kernel.nowMs + 0.1;
    if (delayMs > giveUpMs) return;
    kernel.at(
      delayMs,
      "end of stream",
      () => {
        if (!this.isOpen) return;
        this.isOpen = false;
        if (other.life === other.process.life) other.closed();
      },
      other.process,
    );
  }
}
