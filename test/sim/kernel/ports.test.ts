import { runLoop } from "@svc/runtime/loop";
import { retry } from "@svc/runtime/retry";
import { pause, sleep } from "@svc/runtime/sleep";
import { createWake } from "@svc/runtime/wake";
import { expect, test } from "vitest";
import { Kernel, Process } from "./kernel.ts";
import { createAnswer, enter, virtualClock, virtualRandom } from "./ports.ts";

const never = new AbortController().signal;

/** A world with one process whose clocks are right. */
function world(seed = 1) {
  const kernel = new Kernel(seed);
  const process = new Process(kernel, "one", { drift: 0, wallOffsetMs: 0 });
  process.start();
  const said: string[] = [];
  const say = (what: string): void => void said.push(`${Math.round(kernel.nowMs)} ${what}`);
  return { kernel, process, said, say };
}

/** Runs code of the product in the present life of the process. */
const begin = (process: Process, run: () => void): void =>
  void process.kernel.at(0, "begin", () => enter(process, run), process);

test("what awaits promises goes on before the next event, as far as it gets", async () => {
  const { kernel, process, said, say } = world();
  const clock = virtualClock(process);
  begin(process, async () => {
    await pause(clock, 10, never);
    for (let step = 0; step < 500; step += 1) await Promise.resolve();
    say("first");
  });
  kernel.at(10, "next", () => say("second"));
  kernel.at(10.001, "after it", () => say("third"));
  await kernel.run(20);
  expect(said).toEqual(["10 second", "10 first", "10 third"]);
});

test("the same seed is the same run, with loops, retries and chance", async () => {
  const run = async (seed: number) => {
    const { kernel, process, said, say } = world(seed);
    const clock = virtualClock(process);
    const random = virtualRandom(process);
    const wake = createWake(clock);
    begin(process, () => {
      void runLoop(
        { clock, wake, periodMs: 700, restMs: 20, signal: never, onError: (error) => say(String(error)) },
        async () => {
          say(random.uuid());
          if (random.next() < 0.3) throw new Error("no");
          await pause(clock, random.next() * 50, never);
        },
      );
      void retry({ clock, random, backOff: { firstMs: 50, maxMs: 900 }, signal: never }, async (failures) => {
        say(`try ${failures}`);
        wake.signal();
        if (failures < 12) throw new Error("not yet");
      });
    });
    await kernel.run(30_000);
    return { said, hash: kernel.hash, events: kernel.events };
  };
  const [one, again, other] = [await run(7), await run(7), await run(8)];
  expect(again).toEqual(one);
  expect(one.said.length).toBeGreaterThan(40);
  expect(other.hash).not.toBe(one.hash);
});

test("after a crash no code of that life goes on, whatever it waited for", async () => {
  const { kernel, process, said, say } = world();
  const clock = virtualClock(process);
  const { scope } = process;
  const answer = createAnswer<void>(scope);
  begin(process, () => {
    void sleep(clock, 100).finally(() => say("slept"));
    void answer.promise.finally(() => say("answered"));
    clock.abortAfter(100).addEventListener("abort", () => say("aborted"));
    void createWake(clock)
      .wait(100, never)
      .finally(() => say("woken"));
  });
  kernel.at(50, "crash", () => {
    process.kill();
    answer.resolve(undefined, 10, "answer to the dead");
  });
  kernel.at(60, "start", () => {
    process.start();
    begin(process, () => void sleep(virtualClock(process), 5).then(() => say("the next life")));
    answer.reject(new Error("late"), 10, "answer to the dead");
  });
  await kernel.run(1_000);
  expect(said).toEqual(["65 the next life"]);
});

test("a process that stands still hears nothing meanwhile, and everything after, in order", async () => {
  const { kernel, process, said, say } = world();
  const clock = virtualClock(process);
  begin(process, () => {
    void sleep(clock, 100).then(() => say("slept"));
    const answer = createAnswer<string>(process.scope);
    answer.resolve("answer", 150, "answer");
    void answer.promise.then(say);
  });
  kernel.at(50, "freeze", () => process.freeze(1_000, false));
  await kernel.run(5_000);
  expect(said).toEqual(["1050 slept", "1050 answer"]);
});

test("a suspended machine does not count the time on its monotonic clock", async () => {
  const { kernel, process, said, say } = world();
  const clock = virtualClock(process);
  begin(process, () => void sleep(clock, 100).then(() => say(`${clock.steadyMs()} ${clock.bootMs()}`)));
  kernel.at(50, "suspend", () => process.freeze(1_000, true));
  await kernel.run(5_000);
  expect(said).toEqual(["1100 100 1100"]);
});

test("a signal aborts at its time, and ends what waits", async () => {
  const { kernel, process, said, say } = world();
  const clock = virtualClock(process);
  begin(process, () => {
    const signal = AbortSignal.any([never, clock.abortAfter(40)]);
    void sleep(clock, 1_000, signal).catch((error: Error) => say(error.name));
  });
  await kernel.run(5_000);
  expect(said).toEqual(["40 TimeoutError"]);
});

test("what a timer throws ends its process and nothing else", async () => {
  const { kernel, process, said, say } = world();
  process.onUncaught = (error) => {
    say(String(error));
    process.kill();
  };
  const clock = virtualClock(process);
  begin(process, () => {
    clock.after(10, () => {
      throw new Error("nobody catches it");
    });
    clock.after(20, () => say("too late"));
  });
  kernel.at(30, "others", () => say("others go on"));
  await kernel.run(100);
  expect(said).toEqual(["10 Error: nobody catches it", "30 others go on"]);
});
