package gm

// Group is one member's part in one group: a pure state machine (design/gm.md). It has no goroutine and no lock: one
// caller at a time. Every method may append outputs; the caller drains them with Take or Outputs and carries them out in
// order. It may call Broadcast and Persisted while it handles an output.
type Group struct {
	cfg Config
	out []Output
}

// New makes a member that has no view yet. Tell it LinkUp for every link that is up already, then Install the view that
// brought it.
func New(cfg Config) *Group { return &Group{cfg: cfg.withDefaults()} }

func (g *Group) Install(v View)                                    {}
func (g *Group) Receive(from Member, frame []byte) error           { return nil }
func (g *Group) LinkUp(node string, incarnation uint64)            {}
func (g *Group) LinkDown(node string, incarnation uint64)          {}
func (g *Group) Broadcast(payload []byte, c Class) (uint64, error) { return 0, ErrNotJoined }
func (g *Group) Persisted(sender Member, upTo uint64)              {}
func (g *Group) Take(dst []Output) []Output                        { return dst }
func (g *Group) Outputs() []Output                                 { return nil }
func (g *Group) View() View                                        { return View{} }
func (g *Group) Received(sender Member) uint64                     { return 0 }
func (g *Group) Stable(sender Member) uint64                       { return 0 }
func (g *Group) Fresh() bool                                       { return false }
func (g *Group) Expelled() bool                                    { return false }
func (g *Group) Idle() bool                                        { return false }
func (g *Group) Stats() Stats                                      { return Stats{} }
func (g *Group) Senders() []SenderStats                            { return nil }
