import { Argument, CommanderError, Help, Command as Node, Option } from "commander";
import type { Command, Raw } from "./command.ts";
import { aliasesOf, type CommandEntry, commandIndex, groupSummaries } from "./commands/index.ts";
import { type Outline, outlines } from "./commands/outlines.ts";
import type { Globals } from "./context.ts";
import { CliError } from "./errors.ts";
import { table, wrapText } from "./format.ts";
import { beginWith, flagAdvice, groupOf, suggest } from "./suggest.ts";

/** Wide enough for one line per command, narrow enough to read. */
const helpColumnsMax = 100;
/** A description in a narrower column than this is harder to read than one below its term. */
const descriptionColumnsMin = 28;
/** What terms may have of a line, so that one long term does not narrow all descriptions. */
const termShareMax = 0.42;

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

/** The command that the words begin with, or null. */
const entryOf = (words: readonly string[]): CommandEntry | null =>
  commandIndex.find((entry) => beginWith(words, entry.name)) ?? null;

/** The operation that an envelope names for this command line, also when it is wrong: the command as far as it is known. */
export function operationOf(argv: readonly string[]): string {
  const entry = entryOf(wordsOf(argv));
  if (entry !== null) return entry.name.replaceAll(" ", ".");
  return groupOf(wordsOf(argv))?.replaceAll(" ", ".") ?? "svc";
}

/** Reads a command line. What it does not allow is CLI_INVALID_USAGE. `columns` is how wide help may be; null: as it likes. */
export async function readCommandLine(argv: readonly string[], columns: number | null = null): Promise<Request> {
  // `svc help x` is `svc x --help`.
  if (wordsOf(argv)[0] === "help")
    return readCommandLine([...argv.filter((token) => token !== "help"), "--help"], columns);
  const words = wordsOf(argv);
  const asksHelp = argv.includes("--help") || argv.includes("-h");
  // Behind `--` nothing is a command, and behind `--manifest` nothing a request for help.
  if (words.length === 0 && argv.includes("--")) throw nothingBeforeDashes();
  const unknown = words.length === 0 ? argv.find(isUnknownSwitch) : undefined;
  if (unknown !== undefined)
    throw new CliError("CLI_INVALID_USAGE", `unknown option '${unknown}'`, {
      hint: "See what there is with `svc --help`",
    });
  if (words.length === 0 && !asksHelp) return readCommandLine(["--help", ...argv], columns);

  const entry = entryOf(words);
  if (entry === null && words.length > 0 && beginsWithWord(argv)) {
    const group = groupOf(words);
    if (group === null || words.length > group.split(" ").length) throw unknownCommand(words, group);
    if (!asksHelp) throw await incompleteCommand(group);
  }
  let request: Request | null = null;
  let help = "";
  const root = await buildTree(entry, (chosen) => {
    request = chosen;
  });
  for (const node of nodesOf(root))
    node.exitOverride().configureOutput({
      writeOut: (text) => {
        help += text;
      },
      writeErr: () => {},
      getOutHelpWidth: () => Math.min(helpColumnsMax, columns ?? helpColumnsMax),
    });
  try {
    await root.parseAsync([...argv], { from: "user" });
  } catch (thrown) {
    if (!(thrown instanceof CommanderError)) throw thrown;
    if (thrown.exitCode === 0) return { kind: "help", text: help };
    throw await usageError(thrown, argv, entry);
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

/** What may stand without a command. */
const switches = ["-h", "--help", ...globalOptions.map(([spec]) => spec)];

const isUnknownSwitch = (token: string): boolean =>
  token.startsWith("-") && !switches.includes(token) && !token.startsWith("--manifest");

/** Whether a word comes before anything that only a command could take. */
function beginsWithWord(argv: readonly string[]): boolean {
  const first = argv.find(
    (token, at) => argv[at - 1] !== "--manifest" && token !== "--manifest" && !switches.includes(token),
  );
  return first !== undefined && !first.startsWith("-");
}

const nothingBeforeDashes = () =>
  new CliError("CLI_INVALID_USAGE", "There is no command before `--`", {
    hint: "Leave `--` out, or write it behind the command. See all commands with `svc --help`",
  });

/** For words that are no command, with what may have been meant. */
function unknownCommand(words: readonly string[], group: string | null): CliError {
  const typed = words.slice(0, group === null ? 1 : group.split(" ").length + 1).join(" ");
  const suggestion = suggest(words);
  const list = `See all commands with \`svc ${group === null ? "" : `${group} `}--help\``;
  if ("advice" in suggestion)
    return new CliError("CLI_INVALID_USAGE", `unknown command \`svc ${typed}\``, {
      hint: `${suggestion.advice}. ${list}`,
    });
  const meant = suggestion.commands.map((name) => `\`svc ${name}\``).join(" or ");
  return new CliError(
    "CLI_INVALID_USAGE",
    `unknown command \`svc ${typed}\`${meant === "" ? "" : `. Did you mean ${meant}?`}`,
    { hint: list },
  );
}

/** For a group of commands without one of them: which there are. */
async function incompleteCommand(group: string): Promise<CliError> {
  const below = (await outlines()).filter(({ name }) => name.startsWith(`${group} `));
  const lines = table(below.map(({ name, summary }) => [`  svc ${name}`, summary]));
  return new CliError("CLI_INVALID_USAGE", `svc ${group} needs a subcommand\n${lines}`, {
    hint: `See what one takes with \`svc ${below[0]?.name ?? group} --help\``,
  });
}

/** `entry` is the command of the line; null: it names none, so that an unknown flag may be any command's. */
async function usageError(
  error: CommanderError,
  argv: readonly string[],
  entry: CommandEntry | null,
): Promise<CliError> {
  const known = operationOf(argv);
  const words = known === "svc" ? "" : `${known.replaceAll(".", " ")} `;
  const message = error.message.replace(/^error: /, "").replace(/\n\(/, " (");
  const help = `See what it takes with \`svc ${words}--help\``;
  const advice = error.code === "commander.unknownOption" ? await adviceOnFlag(message, entry) : null;
  return new CliError("CLI_INVALID_USAGE", message, { hint: advice === null ? help : `${advice}. ${help}` });
}

/** What says the same as the option that is unknown. */
async function adviceOnFlag(message: string, entry: CommandEntry | null): Promise<string | null> {
  const loaded = await Promise.all((entry === null ? commandIndex : [entry]).map(({ load }) => load()));
  const [, flag = ""] = /unknown option '([^'=]+)/.exec(message) ?? [];
  const specs = [
    ...globalOptions.map(([spec]) => spec),
    ...loaded.flatMap(({ flags }) => Object.values(flags).map(({ spec }) => spec)),
  ];
  return flagAdvice(
    flag,
    specs.flatMap((spec) => spec.match(/--[a-z-]+/g) ?? []),
  );
}

/** The tree of all commands: with everything that `entry` takes, or with what help lists where the line names no command. */
async function buildTree(entry: CommandEntry | null, choose: (request: Request) => void): Promise<Node> {
  const command = entry === null ? null : await entry.load();
  const listed = entry === null ? await outlines() : [];
  const root = new Node("svc")
    .description("Deploys web applications to a svc platform, and looks after them")
    .configureHelp({
      showGlobalOptions: true,
      visibleCommands: leavesOf,
      subcommandTerm: typedForm,
      padWidth: (node, helper) =>
        Math.min(Help.prototype.padWidth.call(helper, node, helper), Math.floor(widthOf(helper) * termShareMax)),
      formatItem,
      // Also a narrow column is to be broken between words.
      minWidthToWrap: 1,
    })
    .helpOption("-h, --help", "Show this help")
    .helpCommand(false)
    .addHelpText("after", "\nHelp on one command: svc <command> --help\nVersion: svc --version");
  for (const [spec, summary, fallback] of globalOptions) root.option(spec, summary, fallback);
  const groups = new Map<string, Node>([["", root]]);
  for (const { name } of commandIndex) {
    const words = name.split(" ");
    for (let depth = 1; depth < words.length; depth++) {
      const path = words.slice(0, depth).join(" ");
      if (!groups.has(path))
        groups.set(path, child(groups, words.slice(0, depth)).description(groupSummaries[path] ?? ""));
    }
    const node = child(groups, words);
    const outline = listed.find((each) => each.name === name);
    if (outline !== undefined) outlineCommand(node, outline);
    if (command?.name === name)
      describeCommand(node, command, (raw) => choose({ kind: "run", command, globals: globalsOf(root), raw }));
  }
  return root;
}

const widthOf = ({ helpWidth }: Help): number => helpWidth ?? helpColumnsMax;

/** A term with its description beside it; below it, where beside it there is too little room. */
function formatItem(term: string, termWidth: number, description: string, helper: Help): string {
  const width = widthOf(helper);
  const room = width - termWidth - 4;
  if (room >= descriptionColumnsMin && term.length <= termWidth) {
    const [first = "", ...more] = wrapText(description, room);
    const indent = " ".repeat(termWidth + 4);
    return [`  ${term.padEnd(termWidth)}  ${first}`, ...more.map((line) => `${indent}${line}`)].join("\n");
  }
  return [`  ${term}`, ...wrapText(description, width - 6).map((line) => `      ${line}`)].join("\n");
}

/** A new node for the last of `words`, below the one for the words before it. */
function child(groups: ReadonlyMap<string, Node>, words: readonly string[]): Node {
  const name = words.at(-1) ?? "";
  const parent = groups.get(words.slice(0, -1).join(" "));
  if (parent === undefined) throw new Error(`The commands above "${words.join(" ")}" are out of order`);
  return parent
    .command(name)
    .aliases(aliasesOf(name))
    .copyInheritedSettings(parent)
    .helpCommand(false)
    .helpGroup(words[0] === "admin" ? "Administration:" : "Commands:");
}

const takesRest = (spec: string): boolean => spec.endsWith("...>");

function outlineCommand(node: Node, { summary, arguments: taken }: Outline): void {
  node.summary(summary).description(summary);
  for (const each of taken) node.addArgument(new Argument(each.spec, each.summary));
}

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
