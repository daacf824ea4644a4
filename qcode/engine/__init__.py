"""The state machine of a turn. Pure: no clock, disk, network or randomness, and no third-party package.

The driver (`qcode.agent.driver`) calls `Turn.handle(input, now)` and performs the effects it returns, in order. The
result of an effect comes back as the next input. Time and chance are data (`now`, `ReplyFailed.jitter`), so the same
inputs always give the same effects, and every turn can be replayed in a test.

Inputs (`effects.Input`):
    UserSubmitted, CompactRequested   the first input of a turn
    ReplyEvent, ReplyFailed           the stream of the current request, or its failure
    ApprovalAnswered, ToolEnded       the verdict on a call, and the outcome of a call
    WaitElapsed, RateLimitAnswered    a wait is over; whether the user wants to wait for a limit
    ModelSwitched, NoModelLeft        the fallback model, or that none is left
    Confirmed, HookStopped            the answer of the hooks, or their decision to end the turn
    SteerQueued, CancelRequested      from the user, at any time

Effects (`effects.Effect`):
    SendRequest, StopRequest, Wait    for the provider; at most one request streams
    SwitchModel                       connect the next fallback model
    AskApproval, RunTool              for the tools
    Confirm                           ask the hooks
    Append, RecordRequests, Compact   for the session file
    Learn                             for the limits learned about a host
    Emit                              an event for the front end
    EndTurn                           the last effect; every later input is ignored

The course of a turn. `Turn.phase` and `Reply.phase` are values: print them to see the current state.
    1. Idle -> Replying. The user's message is appended. A step begins: a `Reply` sends its first request, with an
       output cap of 8,000 tokens. If the window is nearly full, the turn is Compacting before that.
    2. Replying. Each event goes to the current `Attempt`, which emits the text that may be shown. When the attempt
       ends, `assembler` classifies it (`ReplyShape`), and `recovery.decide(shape, budget)` decides the next action:
       escalate, continue, ask for the answer, repair or resume a call, run the calls, or finish.
       If the stream breaks, `failures` sends the request again or continues its text after a Backoff, or ends the
       reply. If the window is full, the reply has the phase NeedsCompaction and the turn is Compacting; the reply then
       resumes with the shorter history.
    3. Replying -> Calling, if the reply has calls. A `CallRound` gives each call exactly one result: run, denied,
       rejected or cancelled. A truncated call is never run.
    4. Calling -> Replying. Results and steering are appended in one message, and the next step begins, unless a limit
       (`Tally`) ends the turn.
    5. Ended. The last reply has no calls and its answer passes the check (`Review`), or the turn was cancelled, failed
       or reached a limit. `TurnEnded` is emitted.

Where to look:
    turn              the next step, the end of a turn and its outcome; the phases of a turn
    effects           all inputs and effects, the settings of a turn, the check of its answer, the steering queue
    calls             the order in which calls run, and the results of calls that do not run
    plan_mode         the result of a plan that the user approved or rejected
    reply/recovery    the decision after an attempt: one pure function, tested as a table
    reply/reply       how a decision is carried out: text that is shown, stored and judged
    reply/phase       the phases of a reply, and its result
    reply/failures    broken streams, refused requests, full windows, truncated calls
    reply/retries     when a request is retried, and after which wait
    reply/assembler   the kind of reply that an attempt was, and whether its calls are complete
    reply/attempt     the part of a stream that is shown, its block numbers, inline thinking
    reply/seam        removal of repeated text at the start of a continuation
    reply/lead_in     words such as "Continuing from where I left off:" at that start
    reply/repetition  detection of a model that repeats itself
    reply/requests    the exact requests; their texts for the model are in `synthetic`
    caps, counting    output caps, and the size of a prompt
    compaction        when the transcript is compacted
    compactor         how the transcript is compacted: the summary, and the messages that stay
    transcript        the rules of a history that every provider accepts
    model_facts       facts about a model, and limits learned from its host
    ledger            requests, tokens and cost of a turn
"""
