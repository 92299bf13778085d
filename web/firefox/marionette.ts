// Firefox through Marionette, the protocol it has built in: `length:[0, id, command, parameters]` over
// TCP. playwright-core drives only Firefox builds of its own.
import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Where Firefox is, if it is. */
export function firefoxPath(): string | undefined {
  return process.env["TRANSECT_FIREFOX"] ?? ["/usr/bin/firefox-esr", "/usr/bin/firefox"].find((path) => existsSync(path));
}

export class Firefox {
  private next = 0;
  private buffer = Buffer.alloc(0);
  private readonly waiting = new Map<number, { done(value: unknown): void; failed(error: Error): void }>();

  private constructor(
    private readonly process: ChildProcess,
    private readonly socket: Socket,
    private readonly profile: string,
  ) {
    socket.on("data", (data) => this.take(data));
  }

  /** Starts a headless Firefox with an empty profile. */
  static async start(path: string): Promise<Firefox> {
    const profile = mkdtempSync(join(tmpdir(), "transect-firefox-"));
    writeFileSync(join(profile, "user.js"), 'user_pref("marionette.port", 0);\n');
    const process = spawn(path, ["--headless", "--marionette", "--profile", profile, "--width", "1400", "--height", "860"], { stdio: "ignore" });
    const port = await eventually(() => {
      const file = join(profile, "MarionetteActivePort");
      return existsSync(file) ? Number(readFileSync(file, "utf8")) || undefined : undefined;
    });
    const socket = connect(port, "127.0.0.1");
    const firefox = new Firefox(process, socket, profile);
    await firefox.send("WebDriver:NewSession", { capabilities: { alwaysMatch: {} } });
    await firefox.send("WebDriver:SetTimeouts", { script: 60_000, pageLoad: 60_000 });
    return firefox;
  }

  async go(url: string): Promise<void> {
    await this.send("WebDriver:Navigate", { url });
  }

  /** Runs an async function's body in the page; `app` is the page's `App`, `until` waits for a state as long as a script may run. */
  async run<T>(body: string): Promise<T> {
    const script = `const done = arguments[arguments.length - 1]; const app = window.wrappedJSObject ? window.wrappedJSObject.transect : window.transect; const until = async (holds) => { while (!holds()) await new Promise((again) => setTimeout(again, 50)); }; (async () => { ${body} })().then((v) => done(JSON.stringify({ value: v })), (e) => done(JSON.stringify({ error: String(e) })));`;
    const answer = (await this.send("WebDriver:ExecuteAsyncScript", { script, args: [], sandbox: null }).catch(async (error: Error) => {
      // What was waited for did not come: what is there instead tells why.
      throw new Error(`${error.message}: ${body.trim()}\n${await this.text().catch(String)}`);
    })) as { value: string };
    const { value, error } = JSON.parse(answer.value) as { value: T; error?: string };
    if (error) throw new Error(error);
    return value;
  }

  /** What stands in the page. */
  private async text(): Promise<string> {
    const answer = (await this.send("WebDriver:ExecuteScript", { script: "return document.body.innerText;", args: [], sandbox: null })) as { value: string };
    return answer.value;
  }

  async screenshot(): Promise<Buffer> {
    const answer = (await this.send("WebDriver:TakeScreenshot", { full: false })) as { value: string };
    return Buffer.from(answer.value, "base64");
  }

  async close(): Promise<void> {
    const gone = new Promise((done) => this.process.once("exit", done));
    await this.send("Marionette:Quit", { flags: ["eForceQuit"] }).catch(() => undefined);
    const timer = setTimeout(() => this.process.kill("SIGKILL"), 5000);
    await gone;
    clearTimeout(timer);
    this.socket.destroy();
    // Its own children may still write there.
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  }

  private send(command: string, parameters: object): Promise<unknown> {
    const id = this.next++;
    const text = JSON.stringify([0, id, command, parameters]);
    return new Promise((done, failed) => {
      this.waiting.set(id, { done, failed });
      this.socket.write(`${Buffer.byteLength(text)}:${text}`);
    });
  }

  private take(data: Buffer): void {
    this.buffer = Buffer.concat([this.buffer, data]);
    for (;;) {
      const colon = this.buffer.indexOf(":");
      if (colon < 0) return;
      const length = Number(this.buffer.subarray(0, colon).toString());
      if (this.buffer.length < colon + 1 + length) return;
      const message: unknown = JSON.parse(this.buffer.subarray(colon + 1, colon + 1 + length).toString());
      this.buffer = this.buffer.subarray(colon + 1 + length);
      // The greeting is an object; answers are [1, id, error, result].
      if (!Array.isArray(message)) continue;
      const [, id, error, result] = message as [number, number, { message: string } | null, unknown];
      const waiting = this.waiting.get(id);
      this.waiting.delete(id);
      if (error) waiting?.failed(new Error(error.message));
      else waiting?.done(result);
    }
  }
}

async function eventually<T>(look: () => T | undefined): Promise<T> {
  for (let i = 0; i < 300; i++) {
    const found = look();
    if (found !== undefined) return found;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error("Firefox did not say its Marionette port within 30 s");
}
