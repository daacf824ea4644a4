"""Decides what a turn does next. Pure: no clock, disk, network or randomness, and no third-party package.

The driver (`qcode.agent.driver`) calls `Turn.handle(input, now)` and performs the effects it returns, in order. The
result of an effect comes back as the next input. Time and chance are data (`now`, `ReplyFailed.jitter`), so the same
inputs always give the same effects, and every turn can be replayed in a test.

What comes in (`effects.Input`):
    UserSubmitted, CompactRequested   the first input of a turn
    ReplyEvent, ReplyFailed           the stream of the current request, or its failure
    ApprovalAnswered, ToolEnded       the verdict on a call, and its outcome
    WaitElapsed                       a backoff is over
    SteerQueued, CancelRequested      from the user, at any time

What goes out (`effects.Effect`):
    SendRequest, StopRequest, Wait    for the provider; at most one request streams
    AskApproval, RunTool              for the tools
    Append, Compact, Learn            for the session file and the limits learned about a host
    Emit                              an event for the front end
    EndTurn                           the last effect; every later input is ignored

How a turn goes. `Turn.phase` and `Reply.phase` are values: print them to see what is waited for.
    1. Idle -> Replying. The user's message is appended. A step begins: a `Reply` sends its first request, with an
       output cap of 8,000 tokens. If the window is nearly full, the turn is Compacting before that.
    2. Replying. Each event goes to the current `Attempt`, which emits what may be shown. When the attempt ends, the
       `assembler` says what it is (`ReplyShape`) and `recovery.decide(shape, budget)` says what follows: escalate,
       continue, ask for the answer, repair or resume a call, run the calls, or finish.
       If the stream breaks, `failures` replays it or continues its text after a Backoff, or ends the reply. If the
       window is full, the reply NeedsRoom: the turn is Compacting, and the reply resumes over the shorter history.
    3. Replying -> Calling, if the reply has calls. A `CallRound` gives each exactly one result: run, denied,
       rejected or cancelled. A truncated call is never run.
    4. Calling -> Replying. Results and steering are appended in one message, and the next step begins, unless a limit
       (`Tally`) ends the turn.
    5. Ended. The last reply has no calls and its answer passes the check (`Review`), or the turn was cancelled, failed
       or reached a limit. `TurnEnded` is emitted.

Which file to open for which question:
    turn              What comes next? What ends a turn, and with which outcome?
    effects           Which inputs and effects are there? What is a turn set up with?
    calls             Which calls run, in which order? What is the model told about the others?
    reply/recovery    What is done about a truncated reply? One pure function, tested as a table.
    reply/reply       How is such a decision carried out? What is shown, stored and judged?
    reply/phase       What can a reply wait for? What is its result?
    reply/failures    What follows a broken stream, a refused request, a full window, a truncated call?
    reply/assembler   Which kind of reply was this attempt? Is a call complete?
    reply/attempt     What of the stream is shown, and under which block number? What is inline thinking?
    reply/seam        How is repeated text removed where a continuation begins?
    reply/repetition  When is a model stopped because it repeats itself?
    reply/requests    What exactly is sent? The texts for the model are in `synthetic`.
    caps, counting    How many tokens may a reply have? How large is a prompt?
    compaction        When is the transcript compacted? How, and what is kept, is in `compactor`.
    transcript        What makes a history valid for every provider?
    model_facts       What is known about a model, and what did its host teach?
    ledger            How many requests, tokens and dollars did the turn use?
"""
