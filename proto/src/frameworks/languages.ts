/** Projects that are not Node's. `marks` are patterns of paths in the project's own directory. */
interface Language {
  name: string;
  marks: readonly RegExp[];
  /** Whether a page of such a project comes from its server even where Node builds its scripts and styles. */
  serves: boolean;
  /** What makes the site where it is a generator of sites: the command, and where that leaves it. */
  makes?: { command: string; output: string };
}

const languages: readonly Language[] = [
  { name: "Hugo", marks: [/^hugo\.(?:toml|yaml|json)$/], serves: false, makes: { command: "hugo", output: "public" } },
  { name: "Jekyll", marks: [/^_config\.yml$/], serves: false, makes: { command: "jekyll build", output: "_site" } },
  { name: "MkDocs", marks: [/^mkdocs\.ya?ml$/], serves: false, makes: { command: "mkdocs build", output: "site" } },
  { name: "Zola", marks: [/^config\.toml$/], serves: false, makes: { command: "zola build", output: "public" } },
  { name: "mdBook", marks: [/^book\.toml$/], serves: false, makes: { command: "mdbook build", output: "book" } },
  { name: "Django", marks: [/^manage\.py$/], serves: true },
  { name: "Laravel", marks: [/^artisan$/], serves: true },
  { name: "Ruby on Rails", marks: [/^config\.ru$/, /^bin\/rails$/], serves: true },
  { name: "Phoenix", marks: [/^mix\.exs$/], serves: true },
  {
    name: "Python",
    marks: [/^(?:requirements[\w.-]*\.txt|pyproject\.toml|Pipfile|setup\.py|poetry\.lock|uv\.lock)$/, /^[\w-]+\.py$/],
    serves: false,
  },
  { name: "Go", marks: [/^go\.(?:mod|work)$/, /^[\w-]+\.go$/], serves: false },
  { name: "Ruby", marks: [/^Gemfile$/, /^[\w-]+\.rb$/], serves: false },
  { name: "PHP", marks: [/^composer\.json$/, /^[\w-]+\.php$/], serves: false },
  { name: "Java", marks: [/^pom\.xml$/, /^(?:build|settings)\.gradle(?:\.kts)?$/], serves: false },
  { name: "Rust", marks: [/^Cargo\.toml$/], serves: false },
  { name: ".NET", marks: [/^[\w.-]+\.(?:csproj|fsproj|sln|slnx)$/], serves: false },
  { name: "Swift", marks: [/^Package\.swift$/], serves: false },
  { name: "Deno", marks: [/^deno\.jsonc?$/], serves: false },
];

/** A language or tool that a project is written with, and the file that tells. */
export type FoundLanguage = Pick<Language, "name" | "serves" | "makes"> & { mark: string };

/** What a directory is written with besides Node; null when nothing tells. */
export function languageOf(files: ReadonlySet<string>): FoundLanguage | null {
  const sorted = [...files].filter((path) => path.split("/").length <= 2).sort();
  for (const { name, serves, makes, marks } of languages) {
    for (const mark of marks) {
      const found = sorted.find((path) => mark.test(path));
      if (found !== undefined) return { name, serves, mark: found, ...(makes && { makes }) };
    }
  }
  return null;
}

/** What is wrong with a project that is not Node's, and what to do, as sentences without a full stop. */
export function notNode({ name, mark, makes }: FoundLanguage): { problem: string; cure: string } {
  const problem = `This is a ${name} project (${mark}), and svc builds Node projects`;
  if (makes === undefined) return { problem, cure: "Write a Dockerfile that builds and starts it, then try again" };
  const { command, output } = makes;
  return { problem, cure: `Run \`${command}\`, then \`svc init --type static\` and \`svc deploy\` in ${output}` };
}
