import { Argument, CommanderError, Command as Node, Option } from "commander";
import type { Command, Raw } from "./command.ts";
import { aliasesOf, type CommandEntry, commandIndex, groupSummaries, means } from "./commands/index.ts";
import type { Globals } from "./context.ts";
import { CliError } from "./errors.ts";

/** Wide enough for one line per command, narrow enough to read. */
const helpColumns = 100;

/** What a command line asks for. */
export type Request =
  | { kind: "run"; command: Command; globals: Globals; raw: Record<string, Raw> }
  | { kind: "help"; text: string };

export const globalOptions: readonly [spec: string, summary: string, fallback?: string][] = [
  ["--manifest <path>", "Path of the manifest", "svc.yml"],
  ["--json", "Print exactly one JSON object to stdout"],
  ["--yes", "Skip the confirmation of destructive operations"],
  ["--verbose", "Say on stderr what is called"],
  ["--quiet", "Print nothing on success"],
  ["--no-color", "Print without colour"],
];

/** The words before any flag's value that may name a command: `env push` of `--json env push --file x`. */
function wordsOf(argv: readonly string[]): string[] {
  const words: string[] = [];
  for (let at = 0; at < argv.length; at++) {
    const token = argv[at] ?? "";
    if (token === "--") break;
    if (token === "--manifest") at++;
    else if (!token.startsWith("-")) words.push(token);
  }
  return words;
}

/** Whether the words begin with `name`, or with other words for it. */
const beginWith = (words: readonly string[], name: string): boolean =>
  name.split(" ").every((word, at) => means(words[at] ?? "", word));

/** The command that the words begin with, or null. */
const entryOf = (words: readonly string[]): CommandEntry | null =>
  commandIndex.find((entry) => beginWith(words, entry.name)) ?? null;

/** The operation that an envelope names for this command line, also when it is wrong: the command as far as it is known. */
export function operationOf(argv: readonly string[]): string {
  const entry = entryOf(wordsOf(argv));
  if (entry !== null) return entry.name.replaceAll(" ", ".");
  const groups = Object.keys(groupSummaries).filter((group) => beginWith(wordsOf(argv), group));
  const deepest = groups.sort((left, right) => right.length - left.length)[0];
  return deepest?.replaceAll(" ", ".") ?? "svc";
}

/** Reads a command line. What it does not allow is CLI_INVALID_USAGE. */
export async function readCommandLine(argv: readonly string[]): Promise<Request> {
  // `svc help x` is `svc x --help`.
  if (wordsOf(argv)[0] === "help") return readCommandLine([...argv.filter((token) => token !== "help"), "--help"]);
  if (wordsOf(argv).length === 0 && !argv.includes("--help") && !argv.includes("-h"))
    return readCommandLine([...argv, "--help"]);

  const entry = entryOf(wordsOf(argv));
  // Without a known command it is help, or a typing error for which other names may be suggested.
  const loaded = await Promise.all((entry === null ? commandIndex : [entry]).map((each) => each.load()));
  let request: Request | null = null;
  let help = "";
  const root = buildTree(loaded, (chosen) => {
    request = chosen;
  });
  for (const node of nodesOf(root))
    node.exitOverride().configureOutput({
      writeOut: (text) => {
        help += text;
      },
      writeErr: () => {},
      getOutHelpWidth: () => helpColumns,
    });
  try {
    await root.parseAsync([...argv], { from: "user" });
  } catch (thrown) {
    if (!(thrown instanceof CommanderError)) throw thrown;
    if (thrown.exitCode === 0) return { kind: "help", text: help };
    throw usageError(thrown, argv);
  }
  if (request !== null) return request;
  throw new CliError("CLI_INVALID_USAGE", "No command was given", { hint: "See all commands with `svc --help`" });
}

/** Help of the program or of a group lists the commands below it, however deep they are. */
const leavesOf = (node: Node): Node[] =>
  node.commands.flatMap((each) => (each.commands.length === 0 ? [each] : leavesOf(each)));

/** A command with its arguments, as it is typed after `svc`. */
function typedForm(node: Node): string {
  const words = [node.name()];
  for (let at = node.parent; at?.parent; at = at.parent) words.unshift(at.name());
  return [
    ...words,
    ...node.registeredArguments.map((each) => {
      const name = each.variadic ? `${each.name()}...` : each.name();
      return each.required ? `<${name}>` : `[${name}]`;
    }),
  ].join(" ");
}

const nodesOf = (node: Node): Node[] => [node, ...node.commands.flatMap(nodesOf)];

function usageError(error: CommanderError, argv: readonly string[]): CliError {
  const known = operationOf(argv);
  const words = known === "svc" ? "" : `${known.replaceAll(".", " ")} `;
  const incomplete = error.code === "commander.help";
  const message = incomplete ? `svc ${words}needs a subcommand` : error.message.replace(/^error: /, "");
  return new CliError("CLI_INVALID_USAGE", message.replace(/\n\(/, " ("), {
    hint: `See what it takes with \`svc ${words}--help\``,
  });
}

function buildTree(loaded: readonly Command[], choose: (request: Request) => void): Node {
  const root = new Node("svc")
    .description("Deploys web applications to a svc platform, and looks after them")
    .configureHelp({ showGlobalOptions: true, visibleCommands: leavesOf, subcommandTerm: typedForm })
    .helpOption("-h, --help", "Show this help")
    .helpCommand(false)
    .addHelpText("after", "\nHelp on one command: svc <command> --help\nVersion: svc --version");
  for (const [spec, summary, fallback] of globalOptions) root.option(spec, summary, fallback);
  const groups = new Map<string, Node>([["", root]]);
  for (const entry of commandIndex) {
    const words = entry.name.split(" ");
    for (let depth = 1; depth < words.length; depth++) {
      const path = words.slice(0, depth).join(" ");
      if (!groups.has(path))
        groups.set(path, child(groups, words.slice(0, depth)).description(groupSummaries[path] ?? ""));
    }
    const node = child(groups, words);
    const found = loaded.find((each) => each.name === entry.name);
    if (found !== undefined)
      describeCommand(node, found, (raw) => choose({ kind: "run", command: found, globals: globalsOf(root), raw }));
  }
  return root;
}

/** A new node for the last of `words`, below the one for the words before it. */
function child(groups: ReadonlyMap<string, Node>, words: readonly string[]): Node {
  const name = words.at(-1) ?? "";
  const parent = groups.get(words.slice(0, -1).join(" "));
  if (parent === undefined) throw new Error(`The commands above "${words.join(" ")}" are out of order`);
  return parent.command(name).aliases(aliasesOf(name)).copyInheritedSettings(parent).helpCommand(false);
}

const takesRest = (spec: string): boolean => spec.endsWith("...>");

function describeCommand(node: Node, command: Command, run: (raw: Record<string, Raw>) => void): void {
  node
    .summary(command.summary)
    .description([command.summary, command.details].filter((text) => text !== undefined).join("\n\n"))
    .allowExcessArguments(false)
    .addHelpText("after", `\nExamples:\n${command.examples.map((example) => `  ${example}`).join("\n")}`);
  const options = Object.entries(command.flags).map(
    ([key, flag]) => [key, new Option(flag.spec, flag.summary)] as const,
  );
  for (const [, option] of options) node.addOption(option);
  for (const { spec, summary } of Object.values(command.arguments)) node.addArgument(new Argument(spec, summary));
  node.action(() => {
    const given: Readonly<Record<string, Raw>> = node.opts();
    const raw: Record<string, Raw> = {};
    for (const [key, option] of options) raw[key] = given[option.attributeName()];
    for (const [at, [key, { spec }]] of Object.entries(command.arguments).entries())
      raw[key] = takesRest(spec) ? node.args.slice(at) : node.args[at];
    run(raw);
  });
}

function globalsOf(root: Node): Globals {
  const given: Readonly<Record<string, Raw>> = root.opts();
  return {
    manifest: typeof given["manifest"] === "string" ? given["manifest"] : "svc.yml",
    manifestNamed: root.getOptionValueSource("manifest") === "cli",
    json: given["json"] === true,
    yes: given["yes"] === true,
    verbose: given["verbose"] === true,
    quiet: given["quiet"] === true,
    noColor: given["color"] === false,
  };
}
